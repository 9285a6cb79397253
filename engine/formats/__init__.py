"""Model files: read, check, dequantise in numpy, repack for the GPU, write."""
