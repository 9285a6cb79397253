"""Trains UNet and text encoder together, going on from a model folder, until a deadline.

Everything counts towards the deadline: decoding, encoding, compiling, training, writing. The
learning rate falls to zero exactly at its end. What ships is the running average of the weights;
a first one is written at FIRST_EXPORT of the time, so that a run cut short is not lost.

`prepare` fills the caches (encoded rows in the work folder, compiled kernels where PyTorch keeps
them), so that a run after it spends its time on steps. Several runs can share one training: each
covers a part of the learning rate's way, and leaves its state in the work folder for the next.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from . import dataset, latents, networks
from .average import Average, Checkpoint
from .latents import Rows
from .networks import Networks
from .preview import save_preview
from .rows import plan
from .schedule import Clock, Span, average_decay, rate
from .step import Losses, Step
from .tokenizer import LENGTH, Encoder

EARLY_REPORT = 50  # steps, to see soon that all is well
BLOCK = 10  # steps between two looks at the clock
STATE = "state.pt"
REPORT = 500  # steps between two reports
POOL = 200  # steps whose rows are drawn at once
FIRST_EXPORT = 0.6  # of the time
AVERAGE = 0.999  # kept of the average by a step
RESERVE = 25.0  # seconds for writing and the preview
MOST_FALLS = 3  # losses that are no number before the run gives up


@dataclass(frozen=True)
class Options:
    """What a run is told."""

    data: Path
    model: Path  # diffusers folder to go on from; its VAE stays as it is
    out: Path
    work: Path | None = None  # keeps encoded rows and the last state for a later run
    part: tuple[float, float] = (0.0, 1.0)  # of the whole training; after 0 the state goes on
    seconds: float = 540.0
    rate: float = 4e-4
    batch: int = 512
    boost: float = 2.0  # of the weight of everyday things
    compiled: bool = True
    pictures: int | None = None  # a few only, to try things out
    steps: int | None = None  # an end before the deadline
    processes: int = field(default_factory=lambda: os.cpu_count() or 1)


class TrainingError(Exception):
    """The training came off the rails for good; the sentence says when."""


class Log:
    """Lines with the seconds of the run, on the screen and in a file."""

    def __init__(self, clock: Clock, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._clock, self._path = clock, folder / "log.txt"
        self._path.write_text("", "utf-8")

    def __call__(self, text: str) -> None:
        line = f"[{self._clock.elapsed:6.1f}] {text}"
        print(line, flush=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def train(options: Options, clock: Clock) -> None:
    """Train until the clock's limit and write the weights. Raises TrainingError."""
    log = Log(clock, options.out)
    encoder, step, model, rows = _ready(options, log)
    run = _Run(options, clock, log, step, rows)
    if options.part[0] > 0.0:
        run.go_on()
    run.go(lambda name: _export(name, options.out, model, run, log))
    if not _export("last export", options.out, model, run, log):
        raise TrainingError("The weights at the end are no numbers; the first export stays.")
    if options.work:
        run.keep_state(options.work)
    run.average.store()
    save_preview(options.out / "preview.png", model, encoder)
    log("done")


def prepare(options: Options, clock: Clock) -> None:
    """Fill the caches and time a few steps; the UNet's weights are not needed."""
    log = Log(clock, options.out)
    _, step, _, rows = _ready(options, log, fresh_unet=True)
    run = _Run(replace(options, steps=EARLY_REPORT), clock, log, step, rows)
    run.go(lambda name: True)
    log("prepared")


def _ready(
    options: Options, log: Callable[[str], None], fresh_unet: bool = False
) -> tuple[Encoder, Step, Networks, Rows]:
    """Everything loaded, and the step compiled and recorded."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    _set_up(device)
    log(f"torch {torch.__version__} on {device}")
    encoder = Encoder(options.model / "tokenizer")
    rows, model = _rows_and_networks(options, encoder, device, log, fresh_unet)
    words = latents.load_words(options.data, encoder, device, options.pictures)
    empty = torch.from_numpy(encoder([""])).to(device).long()[0]
    step = Step(model, rows, words, empty, options.batch)
    step.choose(torch.multinomial(rows.weight, options.batch, replacement=True))
    step.prepare(log, options.compiled)
    log("the step is ready")
    return encoder, step, model, rows


def _set_up(device: str) -> None:
    torch.manual_seed(0)
    if device == "cuda":
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True


def _rows_and_networks(
    options: Options,
    encoder: Encoder,
    device: str,
    log: Callable[[str], None],
    fresh_unet: bool,
) -> tuple[Rows, Networks]:
    """The rows are planned first: its processes must start before the device is used."""
    kept = latents.cached_rows(options.work, device) if options.work else None
    items = dataset.load_items(options.data)[: options.pictures]
    planned = None
    if kept is None:
        tokenizer = options.model / "tokenizer"
        planned = plan(items, tokenizer, options.boost, options.processes)
        log(f"{len(planned.picture)} rows planned, {planned.tokens.shape[0]} sets of captions")
    text = networks.text_shape(encoder.size, encoder.start, encoder.end, LENGTH)
    model = networks.load_networks(options.model, text, device, fresh_unet)
    model.vae.requires_grad_(False).eval().to(memory_format=torch.channels_last)
    model.unet.to(memory_format=torch.channels_last)
    if kept is None and planned is not None:
        kept = latents.load_rows(options.data, items, planned, model)
        if options.work:
            latents.keep_rows(options.work, kept)
    if kept is None:
        raise TrainingError("There are no rows to train on.")
    sample = kept.latents[:: max(1, len(kept.latents) // 20_000)].float()
    log(f"latents {tuple(kept.latents.shape)}, deviation {sample.std():.3f}")
    return kept, model


def _export(
    name: str, folder: Path, model: Networks, run: _Run, log: Callable[[str], None]
) -> bool:
    """Write the averaged weights, if they are numbers; whether they were written."""
    if not run.average.is_finite():
        log(f"{name}: the average is no number, nothing is written")
        return False
    unet_names = [name for name, _ in model.unet.named_parameters()]
    text_names = [name for name, _ in model.text.named_parameters()]
    values, cut = run.average.values, len(unet_names)
    unet = networks.halves(unet_names, values[:cut])
    text = networks.halves(text_names, values[cut:])
    write_weights(folder, unet, text, run.facts())
    log(f"{name} written")
    return True


class _Run:
    """The loop, and what it keeps count of.

    Attributes:
        made: steps so far.
        falls: losses that were no number.
        ease: factor of the learning rate, halved by each fall.
        history: losses at each report.
    """

    def __init__(
        self, options: Options, clock: Clock, log: Callable[[str], None], step: Step, rows: Rows
    ) -> None:
        self._options, self._clock, self._log = options, clock, log
        self._step, self._rows = step, rows
        self.made = self.falls = 0
        self.ease = 1.0
        self.history: list[dict[str, object]] = []
        self.average = Average(step.weights)
        self._pool = self._drawn()
        self._block(rate(options.rate, 0.0, 0))
        # the state of the optimiser exists after the first steps only
        self._checkpoint = Checkpoint(step.state())

    def go(self, export: Callable[[str], bool]) -> None:
        """Steps until the time is over; `export` is called when FIRST_EXPORT has passed."""
        span = self._clock.span(RESERVE, self._options.part)
        exported, last, started = False, self.made, self._clock.elapsed
        previous: torch.cuda.Event | None = None
        while (passed := self._passed(span)) < 1.0:
            share = span.share(passed)
            self._block(self.ease * rate(self._options.rate, share, self.made))
            previous = _wait_for(previous)
            if self.made == EARLY_REPORT or self.made % REPORT == 0:
                pace = (self._clock.elapsed - started) * 1000 / (self.made - last)
                self.report(share, pace)
                last, started = self.made, self._clock.elapsed
            if passed >= FIRST_EXPORT and not exported:
                exported = export("first export")
        self.report(span.share(1.0), 0.0)

    def keep_state(self, folder: Path) -> None:
        """Leave everything that the next part of this training needs."""
        tensors = [tensor.detach() for tensor in self._step.state()]
        state = {"tensors": tensors, "average": self.average.values, "made": self.made}
        torch.save(state, folder / STATE)

    def go_on(self) -> None:
        """Take up the state that the part before left. Raises TrainingError."""
        path = self._options.work / STATE if self._options.work else None
        if path is None or not path.exists():
            raise TrainingError("There is no state to go on from; begin with part 0.")
        state = torch.load(path, map_location=self.average.values[0].device)
        torch._foreach_copy_([t.detach() for t in self._step.state()], state["tensors"])
        torch._foreach_copy_(self.average.values, state["average"])
        self.made = int(state["made"])
        self._checkpoint.save()

    def report(self, share: float, pace: float) -> None:
        """Log the losses; keep a checkpoint, or go back to it. Raises TrainingError."""
        losses = self._step.read_losses()
        if not math.isfinite(losses.noise):
            self._fall()
            return
        self._log(_line(self.made, share, losses, pace))
        self.history.append({"step": self.made, "noise": losses.noise, "meaning": losses.meaning})
        self._checkpoint.save()

    def facts(self) -> dict[str, object]:
        """What run.json tells about the run."""
        return {
            "steps": self.made,
            "batch": self._options.batch,
            "rate": self._options.rate,
            "seconds": round(self._clock.elapsed, 1),
            "history": self.history,
        }

    def _passed(self, span: Span) -> float:
        """How much of the run is done, by time or by steps."""
        limit = self._options.steps
        return max(span.passed, self.made / limit if limit else 0.0)

    def _drawn(self) -> Tensor:
        """Rows [POOL, batch], each drawn as often as its weight says."""
        count = self._options.batch * POOL
        return torch.multinomial(self._rows.weight, count, replacement=True).view(POOL, -1)

    def _block(self, learning_rate: float) -> None:
        """BLOCK steps at one learning rate, and one update of the average."""
        if self.made % POOL == 0:
            self._pool = self._drawn()
        self._step.set_rate(learning_rate)
        for _ in range(BLOCK):
            self._step.choose(self._pool[self.made % POOL])
            self._step.run()
            self.made += 1
        self.average.update(average_decay(self.made, AVERAGE) ** BLOCK)

    def _fall(self) -> None:
        self.falls += 1
        if self.falls > MOST_FALLS:
            raise TrainingError(f"The loss was no number {self.falls} times, last at {self.made}.")
        self.ease /= 2
        self._checkpoint.restore()
        if not self.average.is_finite():
            self.average = Average(self._step.weights)
        self._log(f"step {self.made}: the loss is no number; back to the last report, half as fast")


def write_weights(
    folder: Path, unet: dict[str, Tensor], text: dict[str, Tensor], facts: dict[str, object]
) -> None:
    """Write all files beside, then move them in at once: never half of an export."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="next") as name:
        beside = Path(name)
        networks.save_unet(beside, unet)
        networks.save_text(beside, text)
        (beside / "run.json").write_text(json.dumps(facts, indent=1), "utf-8")
        for path in sorted(beside.iterdir()):
            path.replace(folder / path.name)


def _wait_for(previous: torch.cuda.Event | None) -> torch.cuda.Event | None:
    """Wait for the block before this one, so that the clock is that of the device."""
    if not torch.cuda.is_available():
        return None
    event = torch.cuda.Event()
    event.record()
    if previous is not None:
        previous.synchronize()
    return event


def _line(step: int, share: float, losses: Losses, pace: float) -> str:
    quarters = " ".join(f"{value:.3f}" for value in losses.quarters)
    return (
        f"step {step} ({share:.0%}): noise {losses.noise:.4f} by quarter {quarters}, "
        f"meaning {losses.meaning:.3f}, {pace:.1f} ms a step"
    )
