"""The starter model's making: words, colours, captions, rows and the data set's files."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from PIL import Image
from starter import captions, colours, dataset, meaning, pictures, rows, schedule, sources, words
from starter.candidates import Candidate
from starter.dataset import DataSetError, Item
from starter.emoji import Group, Names, code_of
from starter.sources import Source, SourceError

TOKENIZER = Path(__file__).resolve().parents[2] / "assets" / "starter-image" / "tokenizer"
APPLE = Item(
    picture_set="fluent3d",
    names=["red apple"],
    aliases=["apple"],
    keywords=["fruit"],
    group=Group.FOOD,
    may_flip=True,
    colour="red",
    hue=5.0,
    saturation=0.8,
    value=0.8,
    single_hue=True,
)


def webp(colour: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGBA", (128, 128), colour).save(file, "WEBP", lossless=True)
    return file.getvalue()


def painted(rgb: tuple[int, int, int]) -> colours.Colour:
    """The colour measured of a picture all of one colour."""
    picture = np.full((16, 16, 3), rgb, np.float32) / 255
    return colours.measure(picture, np.ones((16, 16), bool))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Jack-O-Lantern", "jack o lantern"),
        ("piñata!", "pinata"),
        ("woman\N{RIGHT SINGLE QUOTATION MARK}s hat", "woman's hat"),
        ("  ice_cream  (soft) ", "ice cream soft"),
    ],
)
def test_text_becomes_plain_words(text: str, cleaned: str) -> None:
    assert words.clean(text) == cleaned


def test_a_slug_joins_words_by_hyphens() -> None:
    assert words.slug("Salt & pepper") == "salt-and-pepper"


def test_the_mark_for_coloured_drawing_is_no_part_of_an_emoji() -> None:
    assert code_of("0023-FE0F-20E3") == code_of("23-20e3") == "23-20e3"


@pytest.mark.parametrize(
    ("rgb", "name"),
    [
        ((220, 30, 30), "red"),
        ((30, 90, 220), "blue"),
        ((40, 160, 60), "green"),
        ((110, 60, 30), "brown"),
        ((255, 150, 190), "pink"),
        ((20, 20, 20), "black"),
        ((250, 250, 250), "white"),
        ((140, 140, 140), "gray"),
    ],
)
def test_colours_have_the_names_that_people_give(rgb: tuple[int, int, int], name: str) -> None:
    assert painted(rgb).name == name


def test_only_a_coloured_picture_can_be_repainted() -> None:
    assert painted((220, 30, 30)).single
    assert not painted((140, 140, 140)).single


def test_a_yellow_face_is_not_called_orange() -> None:
    face = colours.Colour("orange", hue=35, saturation=0.9, value=0.95, single=True)
    assert colours.settled_name(face, is_face=True) == "yellow"
    assert colours.settled_name(face, is_face=False) == "orange"


def captions_of(count: int, **options: str) -> list[str]:
    random = Random(0)
    return [captions.caption(APPLE, random, **options) for _ in range(count)]


def test_every_caption_names_the_thing() -> None:
    assert all("apple" in text for text in captions_of(300))


def test_captions_have_many_forms() -> None:
    texts = captions_of(300)
    assert "red apple" in texts
    assert any(text.startswith("3d emoji of ") for text in texts)
    assert len(set(texts)) > 60


def test_a_repainted_picture_is_never_called_by_its_old_colour() -> None:
    texts = captions_of(300, colour="blue")
    assert all("blue" in text and "red" not in text.replace("colored", "") for text in texts)


def test_the_background_ends_the_caption() -> None:
    assert all(text.endswith("teal background") for text in captions_of(50, background="teal"))


@pytest.mark.parametrize(("thing", "article"), [("owl", "an owl"), ("dog", "a dog")])
def test_articles_fit_the_sound(thing: str, article: str) -> None:
    assert captions.with_article(thing) == article


def test_a_single_hue_picture_gets_a_row_for_each_paint() -> None:
    found, texts = rows.rows_of(7, APPLE, 1.0, Random(0))
    paints = len(colours.HUES) + len(colours.GREYS)
    assert len(found) == rows.PLAIN_ROWS + rows.BACKGROUND_ROWS + paints
    assert {row.picture for row in found} == {7}
    assert max(row.caption_set for row in found) + 1 == len(texts) // rows.CAPTIONS


def test_everyday_things_weigh_more() -> None:
    plain, _ = rows.rows_of(0, APPLE, 1.0, Random(0))
    boosted, _ = rows.rows_of(0, APPLE, 2.0, Random(0))
    assert boosted[0].weight == 2 * plain[0].weight


def test_a_plan_numbers_caption_sets_through_all_its_parts() -> None:
    pytest.importorskip("tokenizers")
    items = [replace(APPLE, single_hue=False)] * 3
    plan = rows.plan(items, TOKENIZER)
    assert plan.tokens.shape == (3 * 3, rows.CAPTIONS, 32)
    assert plan.picture.tolist() == sorted(plan.picture.tolist())
    assert np.unique(plan.caption_set).tolist() == list(range(9))
    assert plan.tokens[:, :, 0].max() == 4998  # every text begins with the start token


def test_a_data_set_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    saved = dataset.save(tmp_path, [APPLE, APPLE], [webp("red"), webp("#00f8")])
    assert dataset.load_items(tmp_path) == saved
    loaded = dataset.load_pictures(tmp_path, saved)
    assert loaded.shape == (2, 4, 128, 128)
    assert loaded[:, :, 5, 5].tolist() == [[255, 0, 0, 255], [0, 0, 255, 136]]


def test_a_folder_without_a_data_set_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(DataSetError, match="build it first"):
        dataset.load_items(tmp_path)


def test_a_damaged_data_set_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / dataset.ITEMS).write_text('[{"name": 1}]', "utf-8")
    with pytest.raises(DataSetError, match="damaged"):
        dataset.load_items(tmp_path)


def drawing(folder: Path, box: tuple[int, int, int, int]) -> Candidate:
    """A file with a blue box on nothing."""
    picture = Image.new("RGBA", (300, 200), (0, 0, 0, 0))
    picture.paste((20, 60, 230, 255), box)
    picture.save(folder / "box.png")
    return Candidate("clip", folder / "box.png", "", Names(["box"], [], [], Group.CLIP_ART))


def test_an_object_is_cut_out_fitted_and_centred(tmp_path: Path) -> None:
    made = pictures.make_item(drawing(tmp_path, (10, 20, 210, 120)))
    assert made is not None
    item, file = made
    alpha = np.asarray(Image.open(io.BytesIO(file)).convert("RGBA"))[..., 3] > 128
    ys, xs = np.where(alpha)
    assert (xs.min(), xs.max()) == (6, 121)  # 116 pixels in the middle of 128
    assert (ys.min(), ys.max()) == (35, 92)
    assert (item.colour, item.single_hue) == ("blue", True)


@pytest.mark.parametrize("box", [(0, 0, 290, 20), (0, 0, 5, 5), (0, 0, 40, 40)])
def test_long_empty_and_tiny_drawings_are_left_out(
    tmp_path: Path, box: tuple[int, int, int, int]
) -> None:
    assert pictures.make_item(drawing(tmp_path, box)) is None


def test_a_damaged_file_is_left_out(tmp_path: Path) -> None:
    candidate = drawing(tmp_path, (10, 20, 210, 120))
    (tmp_path / "box.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    assert pictures.make_item(candidate) is None


def test_an_alias_that_means_something_else_never_stands_alone() -> None:
    one, other = np.eye(2, dtype=np.float32)
    item = replace(APPLE, aliases=["pomme", "teacher"])
    vectors = {"red apple": one, "pomme": one, "teacher": other}
    judged = meaning.judge_aliases([item], vectors)[0]
    assert judged.aliases == ["pomme"]
    assert judged.keywords == ["fruit", "teacher"]


def test_synonyms_are_words_near_a_name() -> None:
    one, other = np.eye(2, dtype=np.float32)
    names = np.stack([one, other])
    found = meaning.find_synonyms(["pome", "car"], np.stack([one, -one]), ["apple", "bus"], names)
    assert dict(found) == {"apple": ["pome"]}


@pytest.mark.parametrize(
    ("kind", "begin"),
    [("npm", ["npm", "pack", "name@1"]), ("apt", ["apt-get", "download", "name=1"])],
)
def test_packages_are_fetched_by_their_own_tools(kind: str, begin: list[str]) -> None:
    command = sources.fetch_command(Source("here", kind, "name", "1", "MIT"), Path("box"))
    assert command[: len(begin)] == begin


def test_a_package_of_no_known_kind_is_refused() -> None:
    with pytest.raises(SourceError, match="no tool"):
        sources.fetch_command(Source("here", "gem", "name", "1", "MIT"), Path("box"))


def test_every_picture_set_has_a_source_and_styles() -> None:
    known = {source.name for source in sources.SOURCES}
    assert {one.source for one in sources.PICTURE_SETS} <= known
    assert {one.name for one in sources.PICTURE_SETS} == set(words.table("styles"))


class Time:
    """A clock's time, moved by hand."""

    def __init__(self) -> None:
        self.value = 0.0

    def __call__(self) -> float:
        return self.value


def test_the_learning_rate_falls_to_zero_at_the_deadline() -> None:
    time = Time()
    clock = schedule.Clock(0.0, limit=540.0, now=time)
    time.value = 115.0  # all before the first step counts too
    span = clock.span(reserve=25.0)
    rates = []
    for time.value in (115.0, 315.0, 515.0, 530.0):
        rates.append(schedule.rate(4e-4, span.share(span.passed), step=1000))
    assert rates == pytest.approx([4e-4, 2e-4, 0.0, 0.0])


def test_runs_can_share_a_training() -> None:
    time = Time()
    span = schedule.Clock(0.0, limit=100.0, now=time).span(0.0, part=(0.5, 1.0))
    time.value = 50.0
    assert span.share(span.passed) == 0.75


def test_the_learning_rate_rises_at_first() -> None:
    assert schedule.rate(1.0, 0.0, step=0) == pytest.approx(1 / schedule.WARM_UP)


def test_a_run_that_is_late_already_still_has_a_second() -> None:
    time = Time()
    clock = schedule.Clock(0.0, limit=10.0, now=time)
    time.value = 50.0
    assert clock.span(5.0).end == 51.0


def test_the_average_follows_quickly_at_first() -> None:
    assert schedule.average_decay(0, 0.999) < 0.1
    assert schedule.average_decay(100_000, 0.999) == 0.999
