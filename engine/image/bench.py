"""``driftwood bench image``: seconds and bytes, network by network, as measured."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from engine.graph.planner import Plan, shared_sizes
from engine.image.bench_model import random_model
from engine.image.errors import ImageError, SettingError
from engine.image.settings import ImageSettings, settings_from
from engine.image.weights_upload import never, silent

if TYPE_CHECKING:
    from engine.image.engine import ImageEngine

PROMPT = "a photograph of an astronaut riding a horse"
NETWORKS = {"text.": "text_encoder", "unet.step": "unet", "vae.decode": "vae_decoder"}


def run(engine: ImageEngine, kind: str, **options: Any) -> dict[str, Any]:
    """Measure pictures.

    Args:
        kind: "image".
        options: ``shapes`` ("sd15", "sdxl": random weights; else the loaded model), ``width``,
            ``height``, ``steps``, ``guidance``, ``repeats``, ``progress`` and ``cancelled``.

    Raises:
        ImageError: the kind is unknown, or nothing is loaded.
    """
    if kind != "image":
        raise SettingError(f"The picture engine measures pictures, not {kind}.")
    progress = options.get("progress") or silent
    cancelled = options.get("cancelled") or never
    shapes = options.get("shapes")
    if shapes:
        engine.load_files(random_model(str(shapes)), progress=progress, cancelled=cancelled)
    names = ("width", "height", "steps", "guidance")
    given = {name: options[name] for name in names if options.get(name) is not None}
    settings = settings_from({"prompt": PROMPT, "seed": 0, "sampler": "ddim", **given})
    warm = _timed(engine, settings, progress, cancelled)  # compiles
    repeats = int(options.get("repeats") or (1 if engine.device.caps.software else 3))
    runs = [_timed(engine, settings, progress, cancelled) for _ in range(repeats)]
    return _figures(engine, warm, runs)


def _timed(
    engine: ImageEngine, settings: ImageSettings, progress: Any, cancelled: Any
) -> dict[str, Any]:
    """What one picture took: seconds in all, of the denoising loop, of a step."""
    marks: list[float] = []
    start = time.perf_counter()

    def on_step(step: int, total: int, seconds_left: float | None, preview: Any) -> None:
        del step, total, seconds_left, preview
        marks.append(time.perf_counter())

    _, fields = engine.generate(settings, on_step, cancelled, progress)
    if fields["cancelled"]:
        raise ImageError("The measurement was stopped.")
    total = time.perf_counter() - start
    steps = [after - before for before, after in pairwise(marks)]
    return {
        "seconds": total,
        "step": statistics.median(steps) if steps else marks[0] - start,
        "decode": start + total - marks[-1],
        "fields": fields,
    }


def _figures(
    engine: ImageEngine, warm: dict[str, Any], runs: list[dict[str, Any]]
) -> dict[str, Any]:
    best = min(runs, key=lambda each: float(each["seconds"]))
    model = engine.pipeline.model
    workspace = model.workspace
    by_network = _by_network(workspace.plans())
    operations = sum(workspace.registered("unet.step").costs)
    settings = best["fields"]["settings"]
    return {
        "width": settings["width"],
        "height": settings["height"],
        "steps": settings["steps"],
        "guidance": settings["guidance"],
        "first_seconds": warm["seconds"],
        "seconds": best["seconds"],
        "seconds_per_step": best["step"],
        "decode_seconds": best["decode"],
        "operations_per_step": operations,
        "operations_per_second": operations / best["step"],
        "dispatches_per_step": len(workspace.registered("unet.step").lowered.dispatches),
        "activations": _activations(engine),
        "weight_bytes": model.weight_bytes,
        "arena_bytes": workspace.arena_bytes,
        "shared_bytes": sum(shared_sizes(workspace.plans().values())),
        "peak_bytes": best["fields"]["peak_bytes"],
        "planned_bytes": {name: plan.total for name, plan in by_network.items()},
        "lower_bound_bytes": {name: plan.lower_bound for name, plan in by_network.items()},
        "unplanned_bytes": {name: plan.unplanned for name, plan in by_network.items()},
        "model": best["fields"]["model"],
        "notes": list(dict.fromkeys([*warm["fields"]["notes"], *best["fields"]["notes"]])),
        "device": engine.device.caps.device,
        "backend": engine.device.caps.backend,
    }


def _activations(engine: ImageEngine) -> str:
    """Type of the denoiser's activations as it ran last: f32 where f16 overflowed before."""
    overflowed = engine.pipeline.stages.denoisers.overflowed
    return "f32" if overflowed else engine.pipeline.model.dtype.value


def _by_network(plans: dict[str, Plan]) -> dict[str, Plan]:
    """The largest plan of each network."""
    found: dict[str, Plan] = {}
    for name, plan in plans.items():
        for prefix, network in NETWORKS.items():
            if name.startswith(prefix) and (
                network not in found or plan.total > found[network].total
            ):
                found[network] = plan
    return found
