"""Pictures changed on the device: repainted, scaled, shifted, mirrored, put on a background."""

# pyright: reportMissingImports=false
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

HUE_REACH = 62  # degrees around the main hue that are repainted


@dataclass(frozen=True)
class Change:
    """One change for each picture of a batch."""

    scale: Tensor  # [B]
    shift: Tensor  # [B, 2] pixels
    flip: Tensor  # [B] bool
    paint: Tensor  # [B, 4]: turn in degrees, saturation and value factors, grey (below 0: none)
    background: Tensor  # [B, 3] in 0..1
    hue: Tensor | None = None  # [B] degrees: repaint only what is near; None: all


def render(pictures: Tensor, change: Change) -> Tensor:
    """Pictures [B, 4, H, W] uint8 as training pictures [B, 3, H, W] in -1..1."""
    whole = pictures.float() / 255
    colour, alpha = whole[:, :3], whole[:, 3:]
    colour = repaint(colour, change.paint, change.hue)
    # colours times alpha, so that what is unseen does not colour the edges
    placed = _placed(torch.cat([colour * alpha, alpha], 1), change)
    paper = change.background[:, :, None, None]
    return ((placed[:, :3] + (1 - placed[:, 3:]) * paper) * 2 - 1).clamp(-1, 1)


def repaint(colour: Tensor, paint: Tensor, main_hue: Tensor | None) -> Tensor:
    """Colours [B, 3, H, W] in 0..1 with hue, saturation and value changed."""
    hue, saturation, value = to_hsv(colour)
    turn, more_saturation, more_value, grey = (part.view(-1, 1, 1) for part in paint.unbind(1))
    painted = to_rgb(
        hue + turn,
        (saturation * more_saturation).clamp(0, 1),
        (value * more_value).clamp(0, 1),
    )
    light = (value * (1 - 0.3 * saturation)).unsqueeze(1).expand_as(colour)
    level = grey.unsqueeze(1)
    greys = torch.where(
        level > 0.9,
        1 - (1 - light) * 0.42,
        torch.where(level > 0.4, light * 0.95, 0.03 + light * 0.33),
    )
    painted = torch.where(level >= 0, greys, painted)
    if main_hue is None:
        return painted
    # a blue apple keeps its green leaf
    distance = ((hue - main_hue.view(-1, 1, 1) + 180) % 360 - 180).abs()
    share = (distance < HUE_REACH).float() * ((saturation - 0.06) / 0.12).clamp(0, 1)
    return colour + share.unsqueeze(1) * (painted - colour)


def to_hsv(colour: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hue in degrees, saturation and value [B, H, W] of colours [B, 3, H, W]."""
    top, spread = colour.amax(1), colour.amax(1) - colour.amin(1)
    red, green, blue = colour.unbind(1)
    safe = spread + 1e-6
    among_green, among_blue = (blue - red) / safe + 2, (red - green) / safe + 4
    others = torch.where(top == green, among_green, among_blue)
    hue = torch.where(top == red, ((green - blue) / safe) % 6, others) * 60
    return hue, spread / (top + 1e-6), top


def to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Colours [B, 3, H, W] of hue in degrees, saturation and value [B, H, W]."""
    sixth = (hue % 360) / 60

    def channel(offset: int) -> Tensor:
        place = (offset + sixth) % 6
        return value - value * saturation * torch.minimum(place, 4 - place).clamp(0, 1)

    return torch.stack([channel(5), channel(3), channel(1)], 1)


def _placed(pictures: Tensor, change: Change) -> Tensor:
    """Scaled about the middle, shifted and mirrored; nothing outside."""
    sign = torch.where(change.flip, -1.0, 1.0)
    half = pictures.shape[-1] / 2
    matrix = torch.zeros(len(pictures), 2, 3, device=pictures.device)
    matrix[:, 0, 0] = sign / change.scale
    matrix[:, 1, 1] = 1 / change.scale
    matrix[:, 0, 2] = -change.shift[:, 0] / half / change.scale * sign
    matrix[:, 1, 2] = -change.shift[:, 1] / half / change.scale
    shape = list(pictures.shape)
    grid = functional.affine_grid(matrix, shape, align_corners=False)
    return functional.grid_sample(pictures, grid, "bilinear", "zeros", align_corners=False)
