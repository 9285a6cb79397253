"""Pictures from prompts: settings, prompts, noise, schedulers, networks and pipelines."""
