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


class TinyStep:
    """Three numbers that learn to be 1; after `breaks_at` steps they are no numbers."""

    def __init__(self, breaks_at: int = 0) -> None:
        self.weight = torch.zeros(3, requires_grad=True)
        self.optimiser = torch.optim.AdamW([self.weight], lr=0.1)
        self.weights = [self.weight]
        self._left = breaks_at

    def choose(self, _: torch.Tensor) -> None:
        """The rows do not matter here."""

    def run(self) -> None:
        self.optimiser.zero_grad()
        (self.weight - 1).square().sum().backward()
        self.optimiser.step()
        self._left -= 1
        if self._left == 0:
            self.weight.data.fill_(float("nan"))

    def set_rate(self, rate: float) -> None:
        self.optimiser.param_groups[0]["lr"] = rate

    def read_losses(self) -> object:
        from starter.step import Losses

        return Losses(float((self.weight.detach() - 1).square().sum()), 0.0, [0.0] * 4)

    def state(self) -> list[torch.Tensor]:
        slots = self.optimiser.state.values()
        return [self.weight, *(value for slot in slots for value in slot.values())]


def tiny_run(
    folder: Path, step: TinyStep, steps: int, part: tuple[float, float] = (0.0, 1.0)
) -> tuple[object, list[str]]:
    """A run over the tiny step, ready to go; its exports are noted."""
    pytest.importorskip("diffusers")
    from starter import train_unet
    from starter.schedule import Clock

    class Rows:
        weight = torch.ones(5)

    options = train_unet.Options(
        folder, folder, folder, work=folder, batch=2, part=part, steps=steps, rate=0.01
    )
    lines: list[str] = []
    return train_unet._Run(options, Clock.begin(60.0), lines.append, step, Rows()), lines


def test_a_loss_that_is_no_number_leads_back_to_the_last_report(tmp_path: Path) -> None:
    step = TinyStep(breaks_at=300)
    run, lines = tiny_run(tmp_path, step, steps=600)
    run.go(lambda name: True)
    assert (run.falls, run.ease) == (1, 0.5)
    assert run.average.is_finite()
    assert any("no number" in line for line in lines)


def test_a_second_part_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    first = TinyStep()
    run, _ = tiny_run(tmp_path, first, steps=100, part=(0.0, 0.5))
    run.go(lambda name: True)
    run.keep_state(tmp_path)
    second = TinyStep()
    again, _ = tiny_run(tmp_path, second, steps=200, part=(0.5, 1.0))
    again.go_on()
    assert again.made == run.made
    assert second.weight.tolist() == first.weight.tolist()


def test_weights_are_written_once_before_the_end_too(tmp_path: Path) -> None:
    written: list[str] = []
    run, _ = tiny_run(tmp_path, TinyStep(), steps=100)
    run.go(lambda name: not written.append(name))
    assert written == ["first export"]


def test_a_blend_is_half_way_between_two_models(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file
    from starter.assemble import WEIGHTS, blend
    from starter.networks import WeightsError

    for model, value in (("one", 1.0), ("other", 2.0), ("odd", 1.0)):
        for name in WEIGHTS.values():
            (tmp_path / model / name).parent.mkdir(parents=True)
            size = 5 if model == "odd" else 4
            save_file({"a": torch.full((size,), value).half()}, tmp_path / model / name)
    blend(tmp_path / "one", tmp_path / "other", tmp_path / "mean")
    for name in WEIGHTS.values():
        assert load_file(tmp_path / "mean" / name)["a"].tolist() == [1.5] * 4
    with pytest.raises(WeightsError, match="differs in a"):
        blend(tmp_path / "one", tmp_path / "odd", tmp_path / "no")
