"""Text: tokenizers, chat templates, sampling settings, and the architectures of language models."""
