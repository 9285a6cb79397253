"""Pictures straight out of a training run, in PyTorch: quick, and only to look at."""

# pyright: reportMissingImports=false
from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from .latents import autocast
from .networks import LATENT_CHANNELS, LATENT_SIZE, STEPS, Networks, signal_shares
from .prompts import prompts
from .tokenizer import Encoder

COLUMNS = 8


def save_preview(
    path: Path, networks: Networks, encoder: Encoder, steps: int = 20, guidance: float = 4.5
) -> None:
    """Write a sheet of the prompts' pictures."""
    pictures = sample(networks, encoder, prompts(), steps, guidance)
    shown = ((pictures.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    lines = [
        np.concatenate(list(shown[at : at + COLUMNS]), 1) for at in range(0, len(shown), COLUMNS)
    ]
    Image.fromarray(np.concatenate(lines, 0)).save(path)


@torch.no_grad()
def sample(
    networks: Networks, encoder: Encoder, texts: list[str], steps: int, guidance: float
) -> Tensor:
    """Pictures [N, 3, H, W] in -1..1, by DDIM without noise of its own."""
    device = next(networks.unet.parameters()).device
    count = len(texts)
    random = torch.Generator().manual_seed(0)
    shape = (count, LATENT_CHANNELS, LATENT_SIZE, LATENT_SIZE)
    noisy = torch.randn(shape, generator=random).to(device)
    shares = torch.cat([signal_shares(device.type), torch.ones(1, device=device)])
    moments = np.round(np.arange(STEPS, 0, -STEPS / steps)).astype(int) - 1
    tokens = torch.from_numpy(encoder([*texts, *[""] * count])).long().to(device)
    with autocast(device.type):
        states = networks.text(input_ids=tokens)[0]
        for moment, after in zip(moments, [*moments[1:], STEPS], strict=True):
            when = torch.full((2 * count,), int(moment), device=device)
            said = networks.unet(torch.cat([noisy, noisy]), when, states).sample.float()
            asked, plain = said.chunk(2)
            velocity = plain + guidance * (asked - plain)
            now, then = shares[moment], shares[after]
            clean = now.sqrt() * noisy - (1 - now).sqrt() * velocity
            noise = now.sqrt() * velocity + (1 - now).sqrt() * noisy
            noisy = then.sqrt() * clean + (1 - then).sqrt() * noise
        inner = networks.vae.post_quant_conv(noisy / networks.scaling)
        return networks.vae.decoder(inner).float()
