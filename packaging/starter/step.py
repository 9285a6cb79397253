"""One training step of UNet and text encoder, and its recording in a CUDA graph.

Launched one by one, a step's thousands of small kernels keep the processor busy for twice as long
as they keep the GPU; recorded once and replayed, they run back to back.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from .latents import Rows, Words, autocast
from .networks import STEPS, Networks, signal_shares

TEXT_RATE = 0.6  # of the UNet's learning rate
EMPTY_SHARE = 0.1  # of captions left empty, for guidance
MEANING_WEIGHT = 0.1
QUARTERS = 4  # of the noise schedule, whose losses are reported apart
SLOW_START = 1e-7  # learning rate of the steps before the recording
# what compilers and recorders raise when they cannot
FAILURES = (RuntimeError, AssertionError, TypeError, ValueError, AttributeError, OSError)


@dataclass(frozen=True)
class Losses:
    """Means since they were last read."""

    noise: float
    meaning: float
    quarters: list[float]


class Step:
    """The step over fixed buffers.

    Attributes:
        chosen: rows of the next step [batch].
        weights: all parameters that are trained, UNet's first.
    """

    def __init__(
        self, networks: Networks, rows: Rows, words: Words, empty: Tensor, batch: int
    ) -> None:
        device = rows.latents.device
        self._device, self._batch = device, batch
        self._networks, self._rows, self._words = networks, rows, words
        self._empty = empty  # [length] tokens of no caption
        self._shares = signal_shares(device.type)
        self._head = fitted_head(networks.text, words)
        self._unet: Callable[..., Tensor] = networks.unet
        self._graph: torch.cuda.CUDAGraph | None = None
        self.chosen = torch.zeros(batch, dtype=torch.long, device=device)
        self._sums = torch.zeros(2 + QUARTERS, device=device)
        self._count = 0
        self.unet_weights = list(networks.unet.parameters())
        self.text_weights = list(networks.text.parameters())
        self.optimiser = self._new_optimiser()

    @property
    def weights(self) -> list[Tensor]:
        """What is trained and shipped."""
        return self.unet_weights + self.text_weights

    def choose(self, rows: Tensor) -> None:
        """Set the rows of the next step [batch]."""
        self.chosen.copy_(rows)

    def run(self) -> None:
        """Make one step with the chosen rows."""
        if self._graph is not None:
            self._graph.replay()
        else:
            self.optimiser.zero_grad(set_to_none=True)
            self._step()
        self._count += 1

    def set_rate(self, rate: float) -> None:
        """Set the learning rate."""
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate * group["factor"])
            else:
                group["lr"] = rate * group["factor"]

    def read_losses(self) -> Losses:
        """Mean losses since the last call; waits for the device."""
        values = (self._sums / max(1, self._count)).tolist()
        self._sums.zero_()
        self._count = 0
        return Losses(values[0], values[1], values[2:])

    def prepare(self, log: Callable[[str], None], compiled: bool = True) -> None:
        """Compile and record what can be; each failure is logged and a slower way taken."""
        if self._device.type != "cuda":
            return
        for compiling in (True, False) if compiled else (False,):
            self._unet = torch.compile(self._networks.unet) if compiling else self._networks.unet
            try:
                self._record()
            except FAILURES as error:
                way = "compiled" if compiling else "as it is"
                log(f"no recording of the step ({way}): {error!r}"[:600])
                torch.cuda.synchronize()
                self._graph = None
            else:
                return
        self.optimiser = self._new_optimiser()

    def state(self) -> list[Tensor]:
        """Everything that a step changes, to be copied and put back."""
        moments = [
            value
            for slot in self.optimiser.state.values()
            for value in slot.values()
            if isinstance(value, Tensor)
        ]
        return [*self.weights, *self._head.parameters(), *moments]

    def _new_optimiser(self) -> torch.optim.AdamW:
        text = [*self.text_weights, *self._head.parameters()]
        groups = [
            {"params": self.unet_weights, "factor": 1.0},
            {"params": text, "factor": TEXT_RATE},
        ]
        fused = self._device.type == "cuda"
        return torch.optim.AdamW(
            groups, lr=SLOW_START, betas=(0.9, 0.99), weight_decay=0.01, fused=fused
        )

    def _record(self) -> None:
        """Three steps to warm up, on a stream beside, then one recorded."""
        for group in self.optimiser.param_groups:
            group["lr"] = torch.tensor(SLOW_START, device=self._device)
            group["capturable"] = True
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(3):
                self.optimiser.zero_grad(set_to_none=True)
                self._step()
        torch.cuda.current_stream().wait_stream(beside)
        torch.cuda.synchronize()
        self.optimiser.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self._graph = graph
        self._sums.zero_()

    def _step(self) -> None:
        loss, parts = self._loss()
        loss.backward()
        nn.utils.clip_grad_norm_(self.weights, 1.0, foreach=True)
        self.optimiser.step()
        self._sums.add_(parts)

    def _loss(self) -> tuple[Tensor, Tensor]:
        """The loss, and its parts [2 + QUARTERS] for the report."""
        tokens, word, form = self._texts()
        moment, noisy, wanted = self._noised()
        with autocast(self._device.type):
            states = self._networks.text(input_ids=tokens)[0]  # [batch + words, length, width]
            ends = states[self._batch :][
                torch.arange(len(word), device=self._device), self._words.end[word, form]
            ]
            meant = self._head(ends)
            said = self._unet(noisy, moment, states[: self._batch]).sample
        error = ((said.float() - wanted) ** 2).mean((1, 2, 3))  # [batch]
        likeness = functional.cosine_similarity(meant.float(), self._words.vectors[word], -1)
        meaning = (1 - likeness).mean()
        parts = torch.cat([error.mean()[None], meaning[None], _by_quarter(error, moment)])
        return error.mean() + MEANING_WEIGHT * meaning, parts.detach()

    def _texts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens of captions and of words, one under the other; which words, in which form."""
        device, batch = self._device, self._batch
        sets, captions = self._rows.caption_set[self.chosen], self._rows.tokens
        which = torch.randint(0, captions.shape[1], (batch,), device=device)
        tokens = captions[sets, which].long()
        empty = torch.rand(batch, device=device) < EMPTY_SHARE
        tokens = torch.where(empty[:, None], self._empty, tokens)
        word = torch.randint(0, len(self._words.vectors), (batch // 2,), device=device)
        form = torch.randint(0, self._words.tokens.shape[1], (batch // 2,), device=device)
        return torch.cat([tokens, self._words.tokens[word, form].long()]), word, form

    def _noised(self) -> tuple[Tensor, Tensor, Tensor]:
        """Moments [batch], noised latents, and the velocity that the UNet should say."""
        clean = self._rows.latents[self.chosen].float()
        moment = _spread_moments(self._batch, self._device)
        share = self._shares[moment].view(-1, 1, 1, 1)
        noise = torch.randn_like(clean)
        noisy = share.sqrt() * clean + (1 - share).sqrt() * noise
        velocity = share.sqrt() * noise - (1 - share).sqrt() * clean
        return moment, noisy.contiguous(memory_format=torch.channels_last), velocity


@torch.no_grad()
def fitted_head(text: nn.Module, words: Words, batch: int = 2048) -> nn.Linear:
    """The linear map from ends of words to their meanings, by least squares."""
    device = words.vectors.device
    states: list[Tensor] = []
    for at in range(0, len(words.vectors), batch):
        tokens, end = words.tokens[at : at + batch, 0].long(), words.end[at : at + batch, 0]
        with autocast(device.type):
            output = text(input_ids=tokens)[0].float()
        states.append(output[torch.arange(len(end), device=device), end])
    ends = torch.cat(states)
    width = ends.shape[1]
    square = ends.T @ ends + 1e-2 * len(ends) * torch.eye(width, device=device)
    head = nn.Linear(width, words.vectors.shape[1], bias=False, device=device)
    head.weight.copy_(torch.linalg.solve(square, ends.T @ words.vectors).T)
    return head


def _spread_moments(batch: int, device: torch.device) -> Tensor:
    """Moments spread evenly over the schedule, one from each stretch: a calmer gradient."""
    places = torch.arange(batch, device=device) + torch.rand(batch, device=device)
    return (places * (STEPS / batch)).long().clamp(max=STEPS - 1)


def _by_quarter(error: Tensor, moment: Tensor) -> Tensor:
    """Mean errors [QUARTERS] by the quarter of the noise schedule."""
    quarter = moment * QUARTERS // STEPS
    means = [
        (error * (quarter == number)).sum() / (quarter == number).sum().clamp(min=1)
        for number in range(QUARTERS)
    ]
    return torch.stack(means)
