"""Makes model folders: a copy of another with a run's weights, or with the mean of two models'."""

# pyright: reportMissingImports=false
from __future__ import annotations

import json
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from .networks import WeightsError

WEIGHTS = {
    "unet": "unet/diffusion_pytorch_model.safetensors",
    "text": "text_encoder/model.safetensors",
    "vae": "vae/diffusion_pytorch_model.safetensors",
}


def assemble(model: Path, run: Path, folder: Path) -> dict[str, int]:
    """Write `folder`: `model` with the run's weights; parameters by network.

    Raises WeightsError when the run's weights are not those of this model's networks.
    """
    shutil.copytree(model, folder)
    counts: dict[str, int] = {}
    for network, name in WEIGHTS.items():
        old = load_file(model / name)
        new = _written(run, network) or old
        _check(network, old, new)
        save_file(new, folder / name, metadata={"format": "pt"})
        counts[network] = sum(weight.numel() for weight in new.values())
    _keep_scaling(run, folder)
    return counts


def blend(one: Path, other: Path, folder: Path) -> None:
    """Write `folder`: `one` with the mean of both models' weights.

    A model and what it became by more training lie in one valley; half way between them often draws
    what either draws well (Wortsman et al., Model soups, 2022).

    Raises WeightsError when their networks differ in shape.
    """
    means: dict[str, dict[str, Tensor]] = {}
    for network, name in WEIGHTS.items():
        first, second = load_file(one / name), load_file(other / name)
        _check(network, first, second)
        means[name] = {
            key: ((first[key].float() + second[key].float()) / 2).half() for key in first
        }
    shutil.copytree(one, folder)
    for name, mean in means.items():
        save_file(mean, folder / name, metadata={"format": "pt"})


def _mean(one: Tensor, other: Tensor) -> Tensor:
    return ((one.float() + other.float()) / 2).half()


def _written(run: Path, network: str) -> dict[str, Tensor]:
    """The weights that the run wrote, in one file or in numbered parts."""
    weights: dict[str, Tensor] = {}
    parts = [*run.glob(f"{network}.safetensors"), *run.glob(f"{network}_[0-9]*.safetensors")]
    for path in sorted(parts):
        weights |= load_file(path)
    return weights


def _check(network: str, old: dict[str, Tensor], new: dict[str, Tensor]) -> None:
    differing = sorted(
        name for name in old.keys() | new.keys() if _shape(old, name) != _shape(new, name)
    )
    if differing:
        raise WeightsError(f"The {network} of the run differs in {', '.join(differing[:5])}.")


def _shape(weights: dict[str, Tensor], name: str) -> tuple[int, ...] | None:
    return tuple(weights[name].shape) if name in weights else None


def _keep_scaling(run: Path, folder: Path) -> None:
    """A VAE trained anew has latents of another size."""
    facts = json.loads((run / "run.json").read_text("utf-8"))
    if "scaling_factor" in facts:
        path = folder / "vae" / "config.json"
        config = json.loads(path.read_text("utf-8"))
        config["scaling_factor"] = facts["scaling_factor"]
        path.write_text(json.dumps(config, indent=2), "utf-8")
