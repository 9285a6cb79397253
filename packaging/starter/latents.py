"""What training reads, on the device: latents of all rows, tokens of captions, words to know."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from . import dataset
from .augment import Change, render
from .dataset import Item
from .meaning import load_targets
from .networks import LATENT_CHANNELS, LATENT_SIZE, Networks
from .rows import Plan
from .tokenizer import Encoder

CACHE = "rows.pt"
FORMS = (
    *("{}", "{}", "a {}", "3d emoji of a {}", "{} icon", "clip art of a {}", "red {}"),
    *("{} on a white background", "flat icon of {}", "emoji of {}"),
)
FORMS_OF_A_WORD = 3


@dataclass(frozen=True)
class Rows:
    """The training rows."""

    latents: Tensor  # [R, channels, side, side] bfloat16, times the VAE's scaling
    tokens: Tensor  # [sets, captions, length] int16
    caption_set: Tensor  # [R]
    weight: Tensor  # [R]


@dataclass(frozen=True)
class Words:
    """Words whose meaning the text encoder learns along."""

    tokens: Tensor  # [W, FORMS_OF_A_WORD, length] int16
    end: Tensor  # [W, FORMS_OF_A_WORD] where the text ends
    vectors: Tensor  # [W, width]


def load_rows(folder: Path, items: Sequence[Item], plan: Plan, networks: Networks) -> Rows:
    """Encode every row of the plan with the VAE, on the device where it lies."""
    device = next(networks.vae.parameters()).device
    pictures = torch.from_numpy(dataset.load_pictures(folder, items)).to(device)
    hues = torch.tensor([item.hue or 0.0 for item in items], device=device)
    return Rows(
        latents=encode(pictures, hues, plan, networks),
        tokens=torch.from_numpy(plan.tokens).to(device),
        caption_set=torch.from_numpy(plan.caption_set).to(device),
        weight=torch.from_numpy(plan.weight).to(device),
    )


def cached_rows(folder: Path, device: str) -> Rows | None:
    """Rows that an earlier run left in its work folder."""
    path = folder / CACHE
    return Rows(**torch.load(path, map_location=device)) if path.exists() else None


def keep_rows(folder: Path, rows: Rows) -> None:
    """Leave rows for a later run."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({name: getattr(rows, name) for name in Rows.__annotations__}, folder / CACHE)


@torch.no_grad()
def encode(
    pictures: Tensor, hues: Tensor, plan: Plan, networks: Networks, batch: int = 512
) -> Tensor:
    """Latents [R, channels, side, side] of all rows; the mean of what the VAE says."""
    device = pictures.device
    columns = {name: torch.from_numpy(column) for name, column in _columns(plan).items()}
    count = len(plan.picture)
    shape = (count, LATENT_CHANNELS, LATENT_SIZE, LATENT_SIZE)
    latents = torch.empty(shape, dtype=torch.bfloat16, device=device)
    for at in range(0, count, batch):
        part = {name: column[at : at + batch].to(device) for name, column in columns.items()}
        picture = part.pop("picture")
        shown = render(pictures[picture], Change(**part, hue=hues[picture]))
        mean = encode_mean(networks.vae, shown)
        latents[at : at + batch] = (mean * networks.scaling).to(torch.bfloat16)
    return latents


def encode_mean(vae: torch.nn.Module, pictures: Tensor) -> Tensor:
    """The mean of the latents, float32, of pictures in -1..1."""
    shown = pictures.contiguous(memory_format=torch.channels_last)
    with autocast(pictures.device.type):
        moments = vae.quant_conv(vae.encoder(shown))
    return moments.float().chunk(2, 1)[0]


def autocast(device: str) -> torch.autocast:
    """bfloat16 on a GPU. Casts are not cached: a recorded step would keep stale ones."""
    return torch.autocast(
        device, dtype=torch.bfloat16, enabled=device == "cuda", cache_enabled=False
    )


def load_words(folder: Path, encoder: Encoder, device: str, limit: int | None = None) -> Words:
    """The words of the data set, or the first of them, in forms that captions have."""
    words, vectors = load_targets(folder)
    words, vectors = words[:limit], vectors[:limit]
    random = Random("words")
    texts: list[str] = []
    for word in words:
        others = [random.choice(FORMS).format(word) for _ in range(FORMS_OF_A_WORD - 1)]
        texts += [word, *others]
    tokens = torch.from_numpy(encoder(texts)).view(len(words), FORMS_OF_A_WORD, -1).to(device)
    return Words(
        tokens=tokens,
        end=(tokens == encoder.end).int().argmax(-1),
        vectors=torch.from_numpy(vectors).float().to(device),
    )


def _columns(plan: Plan) -> dict[str, object]:
    """The plan's columns that a picture is made of."""
    fields = asdict(plan)
    wanted = ("picture", "scale", "shift", "flip", "paint", "background")
    return {name: fields[name] for name in wanted}
