"""Driftwood's compute engine: model file -> graph -> fuse -> plan -> kernels -> WGSL -> record -> run."""
