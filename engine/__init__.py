"""Driftwood's engine: model file -> graph -> fuse -> plan -> kernels -> WGSL -> record -> run."""

__version__ = "0.1.0"
