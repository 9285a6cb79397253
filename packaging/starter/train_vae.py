"""Trains the autoencoder from scratch: first to match pictures, then to look like them too.

From ADVERSARY on a small critic judges patches, which keeps edges crisp. The decoder sees latents
with a little noise, since those that the UNet makes are never exact.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from . import dataset
from .augment import Change, render
from .average import Average
from .dataset import Item
from .latents import autocast, encode_mean
from .networks import VAE, halves
from .schedule import Clock, average_decay, rate
from .sources import PICTURE_SETS

PEAK, CRITIC_RATE = 6e-4, 3e-4
DIVERGENCE, EDGES = 0.02, 0.7  # weights of the parts of the loss
ADVERSARY = 0.5  # of the time: from here on the critic counts
CRITIC_LEAD = 0.06  # of the time: it learns a little before it counts
REALISM, FEATURES = 0.015, 0.25
LATENT_NOISE = 0.1  # of the latents' deviation, at most
AVERAGE = 0.998
REPORT = 250
RESERVE = 15.0  # seconds
MEASURED = 4000  # pictures whose latents give the scaling


@dataclass(frozen=True)
class Options:
    """What a run is told."""

    data: Path
    out: Path
    seconds: float = 300.0
    batch: int = 96
    pictures: int | None = None
    steps: int | None = None


class Critic(nn.Module):
    """Says of each patch how real it looks."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        normed = nn.utils.parametrizations.spectral_norm
        shapes = ((3, 1, 4, 2), (width, 2, 4, 2), (2 * width, 4, 4, 2), (4 * width, 4, 3, 1))
        self.layers = nn.ModuleList(
            normed(nn.Conv2d(before, width * factor, kernel, stride, 1))
            for before, factor, kernel, stride in shapes
        )
        self.last = normed(nn.Conv2d(4 * width, 1, 3, 1, 1))

    def forward(self, pictures: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Verdicts [B, 1, h, w], and the features that led to them."""
        features: list[Tensor] = []
        for layer in self.layers:
            pictures = functional.leaky_relu(layer(pictures), 0.2)
            features.append(pictures)
        return self.last(pictures), features


class Batches:
    """Training pictures without end: scaled, shifted, mirrored, repainted, on all backgrounds."""

    def __init__(self, folder: Path, items: list[Item], device: str) -> None:
        weights = {one.name: one.weight for one in PICTURE_SETS}
        self._pictures = torch.from_numpy(dataset.load_pictures(folder, items)).to(device)
        self._weights = torch.tensor([weights[i.picture_set] for i in items], device=device)
        self._device = device

    def next(self, count: int) -> Tensor:
        """[count, 3, H, W] in -1..1."""
        chosen = torch.multinomial(self._weights, count, replacement=True)
        near = self._chance(count, 0.2)  # parts of objects, seen large
        scale = torch.where(near, self._between(count, 1.05, 2.2), self._between(count, 0.8, 1.05))
        reach = torch.where(near, 40.0, 8.0)[:, None]
        shift = (torch.rand(count, 2, device=self._device) * 2 - 1) * reach
        paper = torch.rand(count, 3, device=self._device)
        white = torch.ones_like(paper)
        background = torch.where(self._chance(count, 0.25)[:, None], paper, white)
        flip = self._chance(count, 0.5)
        change = Change(scale, shift, flip, self._paint(count), background)
        shown = render(self._pictures[chosen], change)
        return shown.contiguous(memory_format=torch.channels_last)

    def _paint(self, count: int) -> Tensor:
        painted = self._chance(count, 0.4)
        grey = torch.where(self._chance(count, 0.05), self._between(count, 0.1, 1.0), -1.0)
        turn = torch.where(painted, self._between(count, 0, 360), 0.0)
        saturation = torch.where(painted, self._between(count, 0.7, 1.3), 1.0)
        value = torch.where(painted, self._between(count, 0.7, 1.2), 1.0)
        return torch.stack([turn, saturation, value, grey], 1)

    def _between(self, count: int, low: float, high: float) -> Tensor:
        return torch.rand(count, device=self._device) * (high - low) + low

    def _chance(self, count: int, share: float) -> Tensor:
        return torch.rand(count, device=self._device) < share


def train(options: Options, clock: Clock) -> None:
    """Train until the clock's limit; write vae.safetensors and run.json."""
    from diffusers import AutoencoderKL

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = device == "cuda"
    options.out.mkdir(parents=True, exist_ok=True)
    items = dataset.load_items(options.data)[: options.pictures]
    batches = Batches(options.data, items, device)
    vae = AutoencoderKL(**VAE).to(device).to(memory_format=torch.channels_last)
    _fit(vae, batches, options, clock)
    scaling = measured_scaling(vae, batches, min(MEASURED, 10 * len(items)))
    named = dict(vae.named_parameters())
    save_file(halves(named, named.values()), options.out / "vae.safetensors")
    (options.out / "run.json").write_text(json.dumps({"scaling_factor": scaling}), "utf-8")


def _fit(vae: nn.Module, batches: Batches, options: Options, clock: Clock) -> None:
    device = next(vae.parameters()).device
    critic = Critic().to(device).to(memory_format=torch.channels_last)
    weights = list(vae.parameters())
    fused = device.type == "cuda"
    ours = torch.optim.AdamW(weights, PEAK, betas=(0.9, 0.99), weight_decay=1e-3, fused=fused)
    theirs = torch.optim.AdamW(critic.parameters(), CRITIC_RATE, betas=(0.5, 0.9), fused=fused)
    average, span, made = Average(weights), clock.span(RESERVE), 0
    while (passed := max(span.passed, made / options.steps if options.steps else 0.0)) < 1.0:
        ours.param_groups[0]["lr"] = rate(PEAK, passed, made)
        pictures = batches.next(options.batch)
        with autocast(device.type):
            made_again, divergence = reconstructed(vae, pictures)
        loss = likeness_loss(made_again, pictures) + DIVERGENCE * divergence
        if passed > ADVERSARY:
            ramp = min(1.0, (passed - ADVERSARY) / 0.08)
            loss = loss + ramp * _critic_loss(critic, made_again, pictures)
        ours.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        ours.step()
        if passed > ADVERSARY - CRITIC_LEAD:
            _teach(critic, theirs, made_again.detach(), pictures)
        made += 1
        average.update(average_decay(made, AVERAGE))
        if made % REPORT == 0:
            print(f"[{clock.elapsed:6.1f}] step {made}: {decibels(made_again, pictures):.2f} dB")
    average.store()


def reconstructed(vae: nn.Module, pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Pictures through the VAE, and how far its latents are from a normal distribution."""
    moments = vae.quant_conv(vae.encoder(pictures)).float()
    mean, spread = moments.chunk(2, 1)
    spread = spread.clamp(-20, 5)
    divergence = 0.5 * (mean**2 + spread.exp() - 1 - spread).sum() / pictures.numel()
    latents = mean + torch.randn_like(mean) * (0.5 * spread).exp()
    amount = torch.rand(len(pictures), 1, 1, 1, device=mean.device) * LATENT_NOISE
    latents = latents + amount * mean.detach().std() * torch.randn_like(mean)
    return vae.decoder(vae.post_quant_conv(latents)).float(), divergence


def likeness_loss(made: Tensor, wanted: Tensor) -> Tensor:
    """Differences of pixels and of edges, at three sizes."""
    loss = (made - wanted).abs().mean()
    for _ in range(3):
        across = (made.diff(dim=-1) - wanted.diff(dim=-1)).abs().mean()
        down = (made.diff(dim=-2) - wanted.diff(dim=-2)).abs().mean()
        made, wanted = functional.avg_pool2d(made, 2), functional.avg_pool2d(wanted, 2)
        loss = loss + EDGES * (across + down) + 0.5 * (made - wanted).abs().mean()
    return loss


def _critic_loss(critic: Critic, made: Tensor, wanted: Tensor) -> Tensor:
    """How unreal the critic finds it, and how far its features are from the picture's."""
    critic.requires_grad_(False)
    with autocast(made.device.type):
        verdict, features = critic(made)
        with torch.no_grad():
            _, real = critic(wanted)
    distance = sum(
        (ours.float() - theirs.float()).abs().mean()
        for ours, theirs in zip(features, real, strict=True)
    )
    return -REALISM * verdict.float().mean() + FEATURES * distance


def _teach(critic: Critic, optimiser: torch.optim.Optimizer, made: Tensor, real: Tensor) -> None:
    critic.requires_grad_(True)
    with autocast(made.device.type):
        on_real, on_made = critic(real)[0].float(), critic(made)[0].float()
    loss = functional.relu(1 - on_real).mean() + functional.relu(1 + on_made).mean()
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()


def decibels(made: Tensor, wanted: Tensor) -> float:
    """The peak signal-to-noise ratio of pictures in -1..1."""
    error = ((made.detach() - wanted) ** 2).mean().item()
    return 10 * math.log10(4 / max(error, 1e-9))


@torch.no_grad()
def measured_scaling(vae: nn.Module, batches: Batches, count: int) -> float:
    """The factor that gives latents a deviation of 1."""
    parts = [encode_mean(vae, batches.next(50)) for _ in range(max(1, count // 50))]
    return float(1 / torch.cat(parts).std())
