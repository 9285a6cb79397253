"""The training parts of the starter model: PyTorch is needed, which the app does without."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="only the making of the starter model needs PyTorch")

from starter import colours, rows  # noqa: E402
from starter.augment import Change, render, to_hsv, to_rgb  # noqa: E402
from starter.average import Average, Checkpoint  # noqa: E402


def change(**other: object) -> Change:
    """No change at all, except for what is given."""
    plain = {
        "scale": torch.ones(1),
        "shift": torch.zeros(1, 2),
        "flip": torch.zeros(1, dtype=torch.bool),
        "paint": torch.tensor([rows.Paint()]),
        "background": torch.ones(1, 3),
    }
    return Change(**(plain | other))


def box(red: int, green: int, blue: int) -> torch.Tensor:
    """A coloured left half, the right half empty."""
    picture = torch.zeros(1, 4, 8, 8, dtype=torch.uint8)
    picture[:, :, :, :4] = torch.tensor([red, green, blue, 255]).view(1, 4, 1, 1)
    return picture


def corner(rendered: torch.Tensor, column: int) -> list[float]:
    return [round(value, 2) for value in ((rendered[0, :, 0, column] + 1) / 2).tolist()]


def test_a_picture_stands_on_its_background() -> None:
    shown = render(box(255, 0, 0), change(background=torch.tensor([[0.0, 0.5, 1.0]])))
    assert corner(shown, 0) == [1.0, 0.0, 0.0]
    assert corner(shown, 7) == [0.0, 0.5, 1.0]


def test_a_mirrored_picture_has_its_sides_swapped() -> None:
    shown = render(box(255, 0, 0), change(flip=torch.ones(1, dtype=torch.bool)))
    assert corner(shown, 7) == [1.0, 0.0, 0.0]


def test_only_the_main_hue_is_repainted() -> None:
    paint = torch.tensor([rows.Paint(turn=120.0)])
    repainted = render(box(255, 0, 0), change(paint=paint, hue=torch.tensor([0.0])))
    left_alone = render(box(0, 0, 255), change(paint=paint, hue=torch.tensor([0.0])))
    assert corner(repainted, 0) == [0.0, 1.0, 0.0]
    assert corner(left_alone, 0) == [0.0, 0.0, 1.0]


def test_grey_paint_takes_the_colour_away() -> None:
    paint = torch.tensor([rows.Paint(grey=colours.GREYS["black"])])
    red, green, blue = corner(render(box(255, 0, 0), change(paint=paint)), 0)
    assert red == green == blue < 0.4


def test_hue_saturation_and_value_go_there_and_back() -> None:
    colour = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(to_rgb(*to_hsv(colour)), colour, atol=1e-4)


def test_an_average_follows_and_notices_what_is_no_number() -> None:
    weight = torch.zeros(3)
    average = Average([weight])
    weight.fill_(1.0)
    average.update(keep=0.75)
    assert average.values[0].tolist() == [0.25] * 3
    assert average.is_finite()
    weight.fill_(float("nan"))
    average.update(keep=0.75)
    assert not average.is_finite()


def test_a_checkpoint_puts_things_back_in_place() -> None:
    weight = torch.zeros(3)
    checkpoint = Checkpoint([weight])
    weight.fill_(float("nan"))
    checkpoint.restore()
    assert weight.tolist() == [0.0] * 3


def test_weights_of_a_run_take_the_place_of_a_models(tmp_path: Path) -> None:
    saving = pytest.importorskip("safetensors.torch")
    from starter.assemble import WEIGHTS, assemble

    for network, name in WEIGHTS.items():
        path = tmp_path / "model" / name
        path.parent.mkdir(parents=True)
        saving.save_file({"a": torch.zeros(2), "b": torch.zeros(2)}, path)
        (path.parent / "config.json").write_text(json.dumps({"network": network}), "utf-8")
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}", "utf-8")
    for number, key in enumerate("ab"):
        saving.save_file({key: torch.ones(2)}, run / f"unet_{number}.safetensors")
    assert assemble(tmp_path / "model", run, tmp_path / "new") == {"unet": 4, "text": 4, "vae": 4}
    unet = saving.load_file(tmp_path / "new" / WEIGHTS["unet"])
    assert np.concatenate([value.numpy() for value in unet.values()]).tolist() == [1.0] * 4
