"""The process that owns the GPU, and the client that talks to it."""
