"""What the denoiser of a single-file checkpoint predicts: the noise (epsilon) or v.

No shape tells. It is looked for, surest first: in the file's metadata, in marker tensors, in the
LDM configuration beside the file (NAME.yaml), in the file's name. Stable Diffusion 2 comes in both
kinds: the 768-pixel models predict v, the base, inpainting and Turbo models noise.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.formats.safetensors import SafetensorsFile

V, EPSILON = "v_prediction", "epsilon"
PREDICTIONS = (EPSILON, V, "sample")
MOST_YAML = 1 << 16  # letters read of a configuration
_STATED = {
    "v": V,
    "v_prediction": V,
    "v-prediction": V,
    "epsilon": EPSILON,
    "eps": EPSILON,
    "stable-diffusion-v2-768-v": V,
    "stable-diffusion-v2-512": EPSILON,
    "stable-diffusion-v2-inpainting": EPSILON,
}
_KEYS = ("modelspec.prediction_type", "modelspec.architecture")
_PARAMETERIZATION = re.compile(r"^\s*parameterization\s*:\s*[\"']?(\w+)", re.MULTILINE)
_V_NAME = re.compile(r"(?<![a-z])v[-_ ]?pred")
#: The note of a model whose prediction nothing tells.
GUESSED = (
    "The file does not say what this Stable Diffusion 2 model predicts; v_prediction (that of the "
    "768-pixel kind) is assumed. If pictures come out as noise, choose epsilon as its prediction."
)


def guess_prediction(
    file: SafetensorsFile, family: str, *, inpainting: bool = False
) -> tuple[str, tuple[str, ...]]:
    """What the network predicts, and a note when that is a guess."""
    for key in _KEYS:
        stated = _STATED.get(file.metadata.get(key, "").lower())
        if stated is not None:
            return stated, ()
    if "v_pred" in file.tensors:
        return V, ()
    configured = _configured(file.path.with_suffix(".yaml"))
    if configured is not None:
        return configured, ()
    name = file.path.stem.lower()
    if _V_NAME.search(name):
        return V, ()
    if family != "sd2" or inpainting or any(mark in name for mark in ("base", "512", "turbo")):
        return EPSILON, ()
    return V, () if "768" in name else (GUESSED,)


def _configured(path: Path) -> str | None:
    """What an LDM configuration beside a checkpoint says; without a word it is noise."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MOST_YAML)
    except OSError:
        return None
    found = _PARAMETERIZATION.search(text)
    if found is not None:
        return {"v": V, "eps": EPSILON, "x0": "sample"}.get(found[1])
    return EPSILON if "ldm.models.diffusion" in text else None
