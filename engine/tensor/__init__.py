"""Tensor virtualization: what a tensor means (axes) kept apart from how it lies in GPU memory."""
