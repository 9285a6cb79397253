"""The running average of weights, which is what ships, and a copy to go back to."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Average:
    """A running average of tensors that change in place."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._sources = [tensor.detach() for tensor in tensors]
        self.values = [tensor.clone() for tensor in self._sources]

    def update(self, keep: float) -> None:
        """Keep this share of the average and take the rest from the tensors."""
        torch._foreach_lerp_(self.values, self._sources, 1 - keep)

    def is_finite(self) -> bool:
        """Whether every number is one; waits for the device."""
        checks = torch.stack([torch.isfinite(value).all() for value in self.values])
        return bool(checks.all())

    def store(self) -> None:
        """Put the average into the tensors themselves."""
        torch._foreach_copy_(self._sources, self.values)


class Checkpoint:
    """Copies of tensors, to be put back if the training comes off the rails."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = [tensor.detach() for tensor in tensors]
        self._copies = [tensor.clone() for tensor in self._tensors]

    def save(self) -> None:
        """Copy anew."""
        torch._foreach_copy_(self._copies, self._tensors)

    def restore(self) -> None:
        """Put the copies back."""
        torch._foreach_copy_(self._tensors, self._copies)
