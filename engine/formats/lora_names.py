"""Names in LoRA files: which weight of which network a tensor belongs to, and as what.

kohya's names flatten dots to underscores, so names are compared flattened. A flattened name is
looked up among those that the model's weights have, in diffusers' spelling and in a checkpoint's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from engine.formats.diffusers_configs import UNetConfig
from engine.formats.diffusers_ldm import unet_namer
from engine.formats.errors import UnsupportedFile
from engine.formats.safetensors_header import shown

COMPONENTS = ("unet", "text_encoder", "text_encoder_2")
DOWN, UP, MIDDLE, ALPHA = "down", "up", "middle", "alpha"

# Prefixes, longest first where one begins another.
_PREFIXES = (
    ("lora_unet_", "unet"),
    ("lora_te2_", "text_encoder_2"),
    ("lora_te1_", "text_encoder"),
    ("lora_te_", "text_encoder"),
    ("unet.", "unet"),
    ("text_encoder_2.", "text_encoder_2"),
    ("text_encoder.", "text_encoder"),
    ("base_model.model.", "unet"),
    ("diffusion_model.", "unet"),
)
_PART = re.compile(
    r"(?P<module>.+?)(?:"
    r"\.alpha|"
    r"\.lora_(?P<kohya>down|up|mid)\.weight|"
    r"\.lora_(?P<peft>[AB])(?:\.default)?\.weight|"
    r"(?:_lora|\.lora|\.lora_linear_layer)\.(?P<old>down|up)\.weight)"
)
_PARTS = {"down": DOWN, "A": DOWN, "up": UP, "B": UP, "mid": MIDDLE}

# Marks of other ways to change a model, and what those are called.
_OTHER_KINDS = (
    (".hada_w", "LoHa (LyCORIS)"),
    (".lokr_w", "LoKr (LyCORIS)"),
    (".oft_", "OFT"),
    (".dora_scale", "DoRA"),
    (".lora_magnitude_vector", "DoRA"),
    (".on_input", "IA3"),
    (".w_norm", "norms (LyCORIS)"),
    ("emb_params", "a textual inversion"),
    ("string_to_param", "a textual inversion"),
    ("clip_g", "a textual inversion"),
    ("ip_adapter", "an IP-Adapter"),
    ("control_model", "a ControlNet"),
    ("controlnet", "a ControlNet"),
)


def refuse_other_kinds(names: Iterable[str], label: str) -> None:
    """Raises UnsupportedFile, by name, for files that change a model in another way."""
    names = tuple(names)
    if any(name.startswith("model.diffusion_model.") for name in names):
        raise UnsupportedFile(f"{label} is a whole model, not a LoRA. Choose it as the model.")
    for mark, kind in _OTHER_KINDS:
        found = next((name for name in names if mark in name or name.startswith(mark)), None)
        if found is not None:
            raise UnsupportedFile(
                f"{label} is {kind} ({shown(found)}), and Driftwood adds LoRA files only."
            )
    if any(name.endswith((".diff", ".diff_b")) for name in names):
        raise UnsupportedFile(
            f"{label} holds full differences (LyCORIS), and Driftwood adds LoRA files only."
        )
    if any(name.startswith(("lora_transformer", "transformer.")) for name in names):
        raise UnsupportedFile(
            f"{label} is a LoRA for another kind of model (Flux or Stable Diffusion 3)."
        )


def split_name(name: str) -> tuple[str, str, str] | None:
    """Component, flattened module and part of a tensor's name, or None when it has no such form."""
    match = _PART.fullmatch(name)
    if match is None:
        return None
    part = next((_PARTS[value] for value in match.groupdict().values() if value in _PARTS), ALPHA)
    module = match["module"]
    component = None
    for prefix, owner in _PREFIXES:
        if module.startswith(prefix):
            component, module = owner, module[len(prefix) :]
            break
    if component is None:
        return None
    flat = module.replace(".processor.", ".").replace(".", "_")
    if flat.endswith("_to_out"):
        flat += "_0"  # the old names leave the layer's number out
    return component, flat, part


def flat_names(component: str, names: Iterable[str], unet: UNetConfig) -> Mapping[str, str]:
    """The diffusers name of a weight by each flattened spelling of its module."""
    table: dict[str, str] = {}
    checkpoint = unet_namer(unet) if component == "unet" else None
    for name in names:
        if not name.endswith(".weight"):
            continue
        module = name.removesuffix(".weight")
        table[module.replace(".", "_")] = name
        if checkpoint is not None:
            other = checkpoint(name).removesuffix(".weight")
            table.setdefault(other.replace(".", "_"), name)
        elif module.startswith("text_model."):
            table.setdefault(module.removeprefix("text_model.").replace(".", "_"), name)
    return table
