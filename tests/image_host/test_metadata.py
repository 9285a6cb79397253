"""Pictures carry their settings as A1111-style tools read them, and give them back unchanged."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from engine.image.errors import PictureFileError
from engine.image.metadata import parse_settings_text, read_settings, save_png, settings_text
from engine.image.settings import ImageSettings, LoraChoice

PIXELS = np.zeros((8, 16, 3), np.uint8)


def settled(**values) -> ImageSettings:
    base = {"width": 512, "height": 768, "steps": 20, "guidance": 7.5, "seed": 42}
    return ImageSettings(**{"prompt": "a cat", "sampler": "dpmpp_2m_karras", **base, **values})


def text_of(settings: ImageSettings) -> str:
    return settings_text(settings, model="starter-image", version="Driftwood 0.1.0")


def saved(path: Path, settings: ImageSettings) -> Path:
    save_png(path, PIXELS, settings, model="starter-image", version="Driftwood 0.1.0")
    return path


def foreign(path: Path, text: str, keyword="parameters") -> Path:
    """A PNG as another program writes it."""
    info = PngImagePlugin.PngInfo()
    info.add_text(keyword, text)
    Image.fromarray(PIXELS).save(path, pnginfo=info)
    return path


def test_the_text_is_what_such_tools_write():
    assert text_of(settled(negative="ugly, blurry")) == (
        "a cat\n"
        "Negative prompt: ugly, blurry\n"
        "Steps: 20, Sampler: DPM++ 2M Karras, CFG scale: 7.5, Seed: 42, Size: 512x768, "
        "Model: starter-image, Version: Driftwood 0.1.0"
    )


def test_pillow_reads_the_text(tmp_path):
    with Image.open(saved(tmp_path / "a.png", settled())) as image:
        assert image.size == (16, 8)
        assert image.text["parameters"] == text_of(settled())


@pytest.mark.parametrize(
    "prompt",
    [
        "a cat",
        "",
        "two\nlines\n\nand a gap",
        "quotes \"double\" and 'single', commas: colons; \\backslashes\\",
        "富士山と猫、北斎風\n二行目",
        "emoji 🐱‍👤 and ünïcödé",
        "(red:1.3), [blue], \\(plain\\)",
        "Negative prompt: not really",
        "a\nNegative prompt: b\nNegative prompt: c",
        "Steps: 5, Sampler: Euler, CFG scale: 1",
        " leading and trailing ",
        "tab\tand\rreturn",
        "half a pair \ud800",
    ],
)
def test_any_prompt_comes_back_as_it_was(tmp_path, prompt):
    settings = settled(prompt=prompt, negative=prompt)
    recalled = read_settings(saved(tmp_path / "a.png", settings))
    assert recalled.settings == settings
    assert recalled.model == "starter-image"
    assert recalled.notes == ()


def test_all_settings_come_back(tmp_path):
    settings = settled(
        loras=(LoraChoice("style.safetensors", 0.8), LoraChoice("b, c.safetensors", -0.5)),
        init="cat.png",
        strength=0.6,
        mask="mask.png",
        clip_skip=2,
        vae="vae.safetensors",
        count=3,
    )
    assert read_settings(saved(tmp_path / "a.png", settings)).settings == settings


def test_no_folder_of_the_persons_disk_is_told(tmp_path):
    settings = settled(
        init="/home/ada/private/cat.png",
        loras=(LoraChoice("C:\\Users\\Ada\\style.safetensors", 1.0),),
        vae="/home/ada/vae.safetensors",
    )
    content = saved(tmp_path / "a.png", settings).read_bytes()
    assert b"ada" not in content.lower()
    assert b"style.safetensors" in content


@pytest.mark.parametrize(
    ("prompt", "kind"), [("a cat", b"tEXt"), ("café", b"tEXt"), ("猫", b"iTXt")]
)
def test_utf8_is_used_where_latin_1_cannot_say_it(tmp_path, prompt, kind):
    content = saved(tmp_path / "a.png", settled(prompt=prompt)).read_bytes()
    assert kind + b"parameters\0" in content


# ---- Texts of other programs

A1111 = """masterpiece, (best quality:1.2), 1girl, <lora:add_detail:0.5>
second line
Negative prompt: (worst quality:2), lowres,
bad hands
Steps: 28, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 6.5, Seed: 1234567890, \
Size: 640x960, Model hash: 7f96a1a9ca, Model: some_model-v1, Denoising strength: 0.4, \
Clip skip: 2, Lora hashes: "add_detail: 7c6bad76eb54", Version: v1.9.4"""


def test_a_real_text_is_understood():
    recalled = parse_settings_text(A1111)
    settings = recalled.settings
    assert settings.prompt == "masterpiece, (best quality:1.2), 1girl, \nsecond line"
    assert settings.negative == "(worst quality:2), lowres,\nbad hands"
    assert (settings.steps, settings.guidance, settings.seed) == (28, 6.5, 1234567890)
    assert (settings.width, settings.height) == (640, 960)
    assert (settings.sampler, settings.clip_skip, settings.strength) == ("dpmpp_2m_karras", 2, 0.4)
    assert settings.loras == (LoraChoice("add_detail", 0.5),)
    assert recalled.model == "some_model-v1"
    assert recalled.others
    assert recalled.others["Lora hashes"] == "add_detail: 7c6bad76eb54"
    assert recalled.notes == ()


@pytest.mark.parametrize(
    ("sampler", "name"),
    [
        ("Euler a", "euler_a"),
        ("Euler", "euler"),
        ("DDIM", "ddim"),
        ("Heun", "heun"),
        ("DPM++ 2M Karras", "dpmpp_2m_karras"),
        ("DPM++ 2M", "dpmpp_2m"),
        ("DPM++ SDE Karras", "dpmpp_sde"),
        ("UniPC", "unipc"),
        ("LCM", "lcm"),
    ],
)
def test_samplers_go_by_the_names_such_tools_use(sampler, name):
    recalled = parse_settings_text(f"x\nSteps: 5, Sampler: {sampler}, Seed: 1, Size: 64x64")
    assert recalled.settings.sampler == name


def test_what_cannot_be_taken_over_is_said():
    recalled = parse_settings_text("x\nSteps: many, Sampler: Magic, Seed: -1, Size: 511x512")
    settings = recalled.settings
    assert (settings.steps, settings.sampler, settings.seed, settings.width) == (None,) * 4
    assert settings.height == 512
    assert len(recalled.notes) == 4
    assert "'Magic' is not one of" in " ".join(recalled.notes)


@pytest.mark.parametrize("text", ["just a prompt", "a: b, c", "", "\n\n", "Negative prompt:"])
def test_a_text_without_a_settings_line_is_a_prompt(text):
    settings = parse_settings_text(text).settings
    assert settings.prompt == text.removeprefix("Negative prompt:").strip("\n")
    assert settings.negative == ""


def test_a_loras_line_is_read_too():
    settings = settled(loras=(LoraChoice("a.safetensors", 0.5),))
    assert parse_settings_text(text_of(settings)).settings.loras == settings.loras


@pytest.mark.parametrize("prompt", ["a cat", "line\nbreak", "日本語", 'a "quote"'])
def test_our_text_alone_is_enough(tmp_path, prompt):
    settings = settled(prompt=prompt, negative="n")
    recalled = read_settings(foreign(tmp_path / "a.png", text_of(settings)))
    assert recalled.settings == settings


# ---- Other chunks, broken and hostile files


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(tmp_path, *chunks: bytes) -> Path:
    path = tmp_path / "p.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + chunk(b"IEND", b""))
    return path


def test_compressed_texts_are_read(tmp_path):
    body = b"parameters\0\0" + zlib.compress(b"caf\xe9\nSteps: 3")
    assert read_settings(png(tmp_path, chunk(b"zTXt", body))).settings.prompt == "café"
    body = b"parameters\0\1\0\0\0" + zlib.compress("猫\nSteps: 3".encode())
    assert read_settings(png(tmp_path, chunk(b"iTXt", body))).settings.prompt == "猫"


def test_a_bomb_is_not_unpacked(tmp_path):
    body = b"parameters\0\0" + zlib.compress(bytes(50 << 20))
    with pytest.raises(PictureFileError, match="more than 1,048,576 bytes"):
        read_settings(png(tmp_path, chunk(b"zTXt", body)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a PNG"),
        (b"\xff\xd8\xff\xe0 JPEG", "not a PNG"),
        (b"\x89PNG\r\n\x1a\n", "carries no settings"),
        (b"\x89PNG\r\n\x1a\n\xff\xff\xff\xfftEXtparameters\0x", "carries no settings"),
    ],
)
def test_broken_files_are_refused(tmp_path, content, message):
    (tmp_path / "p.png").write_bytes(content)
    with pytest.raises(PictureFileError, match=message):
        read_settings(tmp_path / "p.png")


def test_pictures_without_settings_are_refused_with_the_reason(tmp_path):
    with pytest.raises(PictureFileError, match="ComfyUI"):
        read_settings(foreign(tmp_path / "a.png", "{}", keyword="workflow"))
    with pytest.raises(PictureFileError, match="no file"):
        read_settings(tmp_path / "none.png")
    with pytest.raises(PictureFileError, match="damaged text"):
        read_settings(png(tmp_path, chunk(b"zTXt", b"parameters\0\0nonsense")))


@pytest.mark.parametrize("own", ["", "{", "[]", '{"settings": {"width": 3}}', "[" * 99_999])
def test_unsound_json_of_ours_gives_way_to_the_common_text(tmp_path, own):
    chunks = [chunk(b"tEXt", b"driftwood\0" + own.encode()), chunk(b"tEXt", b"parameters\0a cat")]
    assert read_settings(png(tmp_path, *chunks)).settings.prompt == "a cat"


def test_random_changes_raise_only_picture_errors(tmp_path):
    random = np.random.default_rng(3)
    original = saved(tmp_path / "a.png", settled(prompt="猫", negative="x")).read_bytes()
    for _ in range(300):
        bent = bytearray(original)
        for place in random.integers(0, len(bent), 4):
            bent[place] = random.integers(256)
        (tmp_path / "b.png").write_bytes(bytes(bent[: random.integers(1, len(bent))]))
        try:
            read_settings(tmp_path / "b.png")
        except PictureFileError:
            continue


def test_a_picture_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(PictureFileError, match="cannot be written"):
        saved(tmp_path / "none" / "a.png", settled())
