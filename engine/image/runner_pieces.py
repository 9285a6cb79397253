"""A program that is submitted in pieces, none of which keeps the GPU for long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.gpu.commands import CommandList
from engine.image.runner_costs import cut
from engine.image.runner_workspace import Workspace


@dataclass
class Pieces:
    """The pieces of one program of a workspace, cut again when the program is bound again."""

    workspace: Workspace
    name: str
    _whole: CommandList | None = None
    _pieces: list[CommandList] = field(default_factory=list[CommandList])

    def prepare(self) -> None:
        """Compile and bind the program, where that is not done yet."""
        whole = self.workspace.program(self.name).commands
        if whole is not self._whole:
            self._whole, self._pieces = whole, []

    @property
    def operations(self) -> float:
        """Operations of the whole program."""
        return sum(self.workspace.registered(self.name).costs)

    def cut(self, most: float) -> Sequence[CommandList]:
        """The pieces, of at most ``most`` operations where they are cut now."""
        assert self._whole is not None
        if not self._pieces:
            costs = self.workspace.registered(self.name).costs
            self._pieces = cut(self.workspace.device, self._whole, costs, most)
        return self._pieces

    def forget(self) -> None:
        """Cut anew at the next use."""
        self._pieces = []
