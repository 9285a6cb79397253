"""The denoising loop's own ops: ``scheduler_input``, ``scheduler_step``, ``inpaint_blend``,
``advance_step``, and the table of factors that they read.

Every sampler is linear: the next x, and what it keeps from step to step, are sums of x, the model's
output, what was kept before and noise. A step is one row of factors, so one kernel serves all
samplers and a recorded list serves all steps: the row is the state's STEP word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.gpu.capabilities import Capabilities
from engine.graph.node import Node
from engine.graph.ops import rows as rows_of
from engine.graph.ops_image import HISTORY, STEP_WORDS
from engine.kernels.base import Access, Bind, Dispatch
from engine.kernels.grid import fold

STEP = 0  #: word of the state: which row of the table is next
STATE_WORDS = 4
FACTORS = HISTORY + 4  # of x, model, what was kept, noise, denoised
_WORDS = (
    "GUIDANCE",
    "IN_SCALE",
    "TIMESTEP",
    "INIT_SCALE",
    "NOISE_SCALE",
    "DENOISED_X",
    "DENOISED_MODEL",
    "CLIP",
)
_AT = {name: (HISTORY + 1) * FACTORS + index for index, name in enumerate(_WORDS)}
NO_CLIP = 3.0e38
SIZE = 64

#: WGSL constants of the words of the state and of a row of the table.
STEP_WGSL = "".join(
    f"const {name}: u32 = {word}u;\n" for name, word in {"STEP": STEP, **_AT}.items()
)


@dataclass(frozen=True)
class StepFactors:
    """One step. ``x`` and each of ``kept`` are factors of (x, model, kept 0 to 2, noise, denoised).

    Missing ones are 0. A multi-step sampler keeps its converted outputs: ``kept[0] = (u, v)`` keeps
    u x + v model, ``kept[1] = (0, 0, 1)`` what was kept before.

    Attributes:
        timestep: what the network is told.
        guidance: of the conditional over the unconditional branch.
        in_scale: of x on its way into the network.
        init_scale, noise_scale: of the first picture and its noise once the step is done; only for
            ``inpaint_blend``.
        denoised: factors of x and the model's output that give the clean picture.
        clip: what that is held to, from -clip to clip.
    """

    timestep: float
    x: Sequence[float]
    kept: Sequence[Sequence[float]] = ()
    guidance: float = 1.0
    in_scale: float = 1.0
    init_scale: float = 1.0
    noise_scale: float = 0.0
    denoised: tuple[float, float] = (0.0, 0.0)
    clip: float = NO_CLIP


def pack_steps(steps: Sequence[StepFactors]) -> np.ndarray:
    """The step table's contents, float32 ``[steps, STEP_WORDS]``.

    Raises:
        ValueError: a step has more factors, or keeps more, than a row holds.
    """
    table = np.zeros((len(steps), STEP_WORDS), np.float32)
    for row, step in zip(table, steps, strict=True):
        sums = (step.x, *step.kept)
        if len(sums) > HISTORY + 1 or max(map(len, sums)) > FACTORS:
            raise ValueError(f"A step keeps at most {HISTORY} sums of {FACTORS} factors each.")
        for index, factors in enumerate(sums):
            row[index * FACTORS : index * FACTORS + len(factors)] = factors
        row[_AT["GUIDANCE"] :][: len(_WORDS)] = (
            step.guidance,
            step.in_scale,
            step.timestep,
            step.init_scale,
            step.noise_scale,
            *step.denoised,
            step.clip,
        )
    return table


def lower(node: Node, caps: Capabilities) -> list[Dispatch]:
    """The dispatch of one of this family's ops."""
    if node.op == "advance_step":
        binds = (Bind("state", node.named["state"], Access.READ_WRITE, raw="array<u32>"),)
        params = {"state_words": STEP_WGSL}
        return [Dispatch("image/advance_step.wgsl", params, binds, (1, 1, 1), "advance step")]
    makers = {"scheduler_input": _input, "scheduler_step": _step, "inpaint_blend": _blend}
    return [makers[node.op](node, caps)]


def variants(node: Node, caps: Capabilities) -> dict[str, list[Dispatch]]:
    """Every way to run the node, by name: there is one."""
    return {"only": lower(node, caps)}


def _dispatch(node: Node, caps: Capabilities, binds: Sequence[Bind], **params: object) -> Dispatch:
    shape = node.named["x"].tensor.shape
    grid = fold(-(-shape.vectors // SIZE), caps)
    table = (
        Bind("steps", node.named["steps"], raw="array<f32>"),
        Bind("state", node.named["state"], raw="array<u32>"),
    )
    full = {
        "state_words": STEP_WGSL,
        "steps": node.named["steps"].tensor.shape.elements // STEP_WORDS,
        "step_words": STEP_WORDS,
        "vectors": shape.vectors,
        "slices": shape.slices,
        "rows": rows_of(shape),
        "size": SIZE,
        "grid_x": grid[0],
        **params,
    }
    return Dispatch(f"image/{node.op}.wgsl", full, (*binds, *table), grid, node.op)


def _input(node: Node, caps: Capabilities) -> Dispatch:
    binds = (Bind("x", node.named["x"]), Bind("y", node.output, Access.WRITE))
    return _dispatch(node, caps, binds, copies=int(node.attrs["copies"]))


def _step(node: Node, caps: Capabilities) -> Dispatch:
    named = node.named
    batch = named["x"].tensor.shape.b
    count = {
        part: named[part].tensor.shape.b // batch if part in named else 0
        for part in ("model", "history", "noise")
    }
    binds = [Bind("x", named["x"], Access.READ_WRITE), Bind("model", named["model"])]
    if "history" in named:
        binds.append(Bind("history", named["history"], Access.READ_WRITE))
    if "noise" in named:
        binds.append(Bind("noise", named["noise"]))
    if "shown" in named:
        binds.append(Bind("shown", named["shown"], Access.READ_WRITE))
    return _dispatch(
        node,
        caps,
        binds,
        guided=count["model"] == 2,
        kept=count["history"],
        factors=FACTORS,
        noises=count["noise"],
        has_noise="noise" in named,
        has_shown="shown" in named,
    )


def _blend(node: Node, caps: Capabilities) -> Dispatch:
    named = node.named
    reads = (Bind(part, named[part]) for part in ("init", "noise", "mask"))
    binds = (Bind("x", named["x"], Access.READ_WRITE), *reads)
    return _dispatch(node, caps, binds, mask_rows=rows_of(named["mask"].tensor.shape))
