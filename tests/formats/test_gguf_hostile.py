"""Files that are broken, hostile, or something else are refused with a reason, nothing worse."""

from __future__ import annotations

import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from engine.formats.errors import (
    CorruptFile,
    FormatError,
    NotAModelFile,
    TruncatedFile,
    UnsupportedFile,
)
from engine.formats.gguf import open_gguf, write_gguf
from engine.formats.quants import Quant

U8, U32, F32, BOOL, STRING, ARRAY = 0, 4, 6, 7, 8, 9
HUGE = 1 << 60


def text(value: str | bytes, length: int | None = None) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def entry(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def array(kind: int, count: int, body: bytes) -> bytes:
    return struct.pack("<IQ", kind, count) + body


def tensor(name="w", dims=(32, 2), kind=2, offset=0) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


ARCHITECTURE = entry("general.architecture", STRING, text("tiny"))


def image(
    *entries: bytes,
    tensors=(),
    data=b"",
    magic=b"GGUF",
    version=3,
    keys=None,
    tensor_count=None,
    architecture=ARCHITECTURE,
) -> bytes:
    """A file put together from parts, each of which a test may bend."""
    entries = (architecture, *entries) if architecture else entries
    head = magic + struct.pack(
        "<IQQ",
        version,
        len(tensors) if tensor_count is None else tensor_count,
        len(entries) if keys is None else keys,
    )
    head += b"".join(entries) + b"".join(tensors)
    return head + b"\0" * (-len(head) % 32 if tensors else 0) + data


def open_bytes(tmp_path, content: bytes, name="model.gguf"):
    path = tmp_path / name
    path.write_bytes(content)
    with open_gguf(path) as file:
        return file


def refused(tmp_path, content: bytes, kind: type[FormatError], message: str, name="model.gguf"):
    with pytest.raises(kind, match=message) as caught:
        open_bytes(tmp_path, content, name)
    assert name in str(caught.value)
    assert str(caught.value).endswith((".", ")"))


def case(content: bytes, kind: type[FormatError], message: str, id: str):
    return pytest.param(content, kind, message, id=id)


def test_the_parts_make_a_sound_file(tmp_path):
    file = open_bytes(tmp_path, image(tensors=[tensor()], data=bytes(36)))
    assert file.tensors["w"].shape == (2, 32)


@pytest.mark.parametrize("version", [2, 3])
def test_versions_2_and_3_are_read(tmp_path, version):
    assert open_bytes(tmp_path, image(version=version)).version == version


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"\x01\x02\x03\x04", "starts with"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4920739232\n",
            "Git LFS pointer.*4,920,739,232 bytes",
        ),
        (b"<!DOCTYPE html><html><body>Sign in</body></html>", "web page"),
        (b"\n <HTML>\n", "web page"),
        (b"<?xml version='1.0'?><Error>AccessDenied</Error>", "XML"),
        (b'{"error": "gated"}', "JSON"),
        (struct.pack("<Q", 4) + b'{"a"' + bytes(9), "safetensors"),
        (b"\x80\x02}q\x00.", "pickle"),
        (b"PK\x03\x04rest", "ZIP archive or a PyTorch checkpoint"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"lmgg" + bytes(40), "before GGUF"),
        (b"FUGG" + bytes(40), "big-endian"),
        (bytes(4096), "only zeros"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_files_are_named_for_what_they_are(tmp_path, content, message):
    refused(tmp_path, content, NotAModelFile, message)


def test_a_real_archive_is_recognised(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.gguf", "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    with pytest.raises(NotAModelFile, match="ZIP archive"):
        open_gguf(tmp_path / "model.gguf")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(NotAModelFile, match="no file"):
        open_gguf(tmp_path / "none.gguf")
    with pytest.raises(NotAModelFile, match="folder"):
        open_gguf(tmp_path)


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        case(b"GG", TruncatedFile, "after 2 bytes", "half the magic"),
        case(image(version=1), UnsupportedFile, "version 1;.*2 and 3", "old version"),
        case(image(version=99), UnsupportedFile, "version 99", "new version"),
        case(image(version=3 << 24), UnsupportedFile, "big-endian", "big-endian"),
        case(image(tensor_count=HUGE), CorruptFile, "claims .* tensors", "tensor count"),
        case(image(keys=HUGE), CorruptFile, "claims .* metadata", "key count"),
        case(image(tensor_count=60_000), TruncatedFile, "60,000 tensors", "more tensors than fit"),
        case(image(keys=60_000), TruncatedFile, "60,000 metadata", "more keys than fit"),
        case(image(architecture=b""), UnsupportedFile, "general.architecture", "no architecture"),
        case(
            image(entry("general.type", STRING, text("imatrix")), architecture=b""),
            UnsupportedFile,
            "'imatrix'",
            "not a model",
        ),
        case(
            image(architecture=entry("general.architecture", U32, b"\1\0\0\0")),
            UnsupportedFile,
            "general.architecture",
            "architecture is a number",
        ),
    ],
)
def test_broken_heads(tmp_path, content, kind, message):
    refused(tmp_path, content, kind, message)


@pytest.mark.parametrize(
    ("entries", "kind", "message"),
    [
        case([text("k", HUGE)], CorruptFile, "name of metadata entry 2 claims", "long key"),
        case([text("k", 60_000) + bytes(20)], TruncatedFile, "at least 59,", "key past the end"),
        case([entry("", U32, bytes(4))], CorruptFile, "entry 2 is empty", "empty key"),
        case([entry(b"\xff\xfe", U32, bytes(4))], CorruptFile, "not text", "key is no text"),
        case([ARCHITECTURE], CorruptFile, "'general.architecture' twice", "key twice"),
        case([entry("k", 77, bytes(8))], CorruptFile, "unknown type 77", "unknown type"),
        case([entry("k", BOOL, b"\2")], CorruptFile, "neither true nor false", "odd bool"),
        case([entry("k", STRING, text("v", HUGE))], CorruptFile, "value of 'k' claims", "text"),
        case([entry("k", STRING, text("v", 99))], TruncatedFile, "98 bytes", "text past the end"),
        case([entry("k", ARRAY, array(F32, HUGE, b""))], CorruptFile, "elements", "array"),
        case([entry("k", ARRAY, array(F32, 9, b""))], TruncatedFile, "36 bytes", "short array"),
        case([entry("k", ARRAY, array(STRING, HUGE, b""))], CorruptFile, "elements", "strings"),
        case(
            [entry("k", ARRAY, array(STRING, 2, text("a") + text("b", 5)))],
            TruncatedFile,
            r"string 2 of 2 in 'k': at least 4 bytes",
            "string past the end",
        ),
        case(
            [entry("k", ARRAY, array(STRING, 2, text("a") + text("b", HUGE)))],
            CorruptFile,
            "string 2 of 2",
            "absurd string",
        ),
        case(
            [entry("k", ARRAY, array(STRING, 2, text("a" * 99)))],
            TruncatedFile,
            "string 2 of 2",
            "strings end early",
        ),
        case([entry("k", ARRAY, array(77, 1, bytes(8)))], CorruptFile, "type 77", "array type"),
        case(
            [entry("k", ARRAY, array(ARRAY, 1, array(ARRAY, 1, array(U8, 1, b"\0"))))],
            UnsupportedFile,
            "arrays inside arrays",
            "nested arrays",
        ),
    ],
)
def test_broken_metadata(tmp_path, entries, kind, message):
    refused(tmp_path, image(*entries), kind, message)


@pytest.mark.parametrize(
    ("tensors", "size", "kind", "message"),
    [
        ([tensor(), tensor(offset=64)], 200, CorruptFile, "tensor 'w' twice"),
        ([tensor(name="")], 36, CorruptFile, "tensor 1 is empty"),
        ([tensor(name=b"\xc3")], 36, CorruptFile, "not text"),
        ([tensor(dims=())], 36, CorruptFile, "0 axes"),
        ([tensor(dims=(32,) * 5)], 36, CorruptFile, "5 axes"),
        ([tensor(dims=(32, 0))], 36, CorruptFile, "length 0"),
        ([tensor(dims=(0, 3))], 36, CorruptFile, "length 0"),
        ([tensor(dims=(33, 2))], 36, CorruptFile, "33 weights.*Q4_0's block of 32"),
        ([tensor(dims=(1 << 32, 1 << 40))], 36, CorruptFile, "claims the shape"),
        ([tensor(dims=((1 << 64) - 32, 2))], 36, CorruptFile, "claims the shape"),
        ([tensor(dims=(1 << 33,) * 4)], 36, CorruptFile, "claims the shape"),
        ([tensor(offset=8)], 44, CorruptFile, "not a multiple of 32"),
        ([tensor(offset=1 << 62)], 36, CorruptFile, "said to end at byte"),
        ([tensor(offset=3200)], 36, CorruptFile, "said to end at byte"),
        ([tensor(), tensor("x", offset=32)], 96, CorruptFile, "'w' and 'x' overlap by 4 bytes"),
        ([tensor()], 30, TruncatedFile, "cut off: 6 of"),
        ([tensor(), tensor("x", offset=64)], 10, TruncatedFile, "cut off: 90 of"),
        ([tensor(kind=16)], 36, UnsupportedFile, "IQ2_XXS.*supported are F32, F16, Q4_0"),
        ([tensor(kind=10), tensor("x", kind=39)], 99, UnsupportedFile, "Q2_K, MXFP4"),
        ([tensor(kind=4)], 36, UnsupportedFile, "unknown type 4"),
    ],
    ids=str,
)
def test_broken_tensors(tmp_path, tensors, size, kind, message):
    refused(tmp_path, image(tensors=tensors, data=bytes(size)), kind, message)


@pytest.mark.parametrize("value", [0, 24, 33])
def test_an_alignment_is_a_power_of_two(tmp_path, value):
    content = image(entry("general.alignment", U32, struct.pack("<I", value)))
    refused(tmp_path, content, CorruptFile, f"alignment is {value}, not a power of two")


def test_an_alignment_is_a_number(tmp_path):
    content = image(entry("general.alignment", STRING, text("32")))
    refused(tmp_path, content, CorruptFile, "alignment is 32, not")


def split(count: int, number: int) -> list[bytes]:
    return [
        entry("split.count", U32, struct.pack("<I", count)),
        entry("split.no", U32, struct.pack("<I", number)),
    ]


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (image(*split(3, 1)), "model.gguf", "part 2 of 3"),
        (image(), "model-00001-of-00003.gguf", "part 1 of 3"),
        (b"\x01\x02\x03\x04", "model-00002-of-00003.gguf", "part 2 of 3"),
    ],
    ids=["metadata", "name", "name of a part without a header"],
)
def test_a_part_of_a_split_model_says_which(tmp_path, content, name, message):
    refused(tmp_path, content, UnsupportedFile, message, name)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (image(*split(0, 0)), "model-00001-of-00003.gguf"),
        (image(*split(1, 0)), "model.gguf"),
        (image(), "model-00001-of-00001.gguf"),
    ],
    ids=["joined", "one part", "one part by name"],
)
def test_whole_models_are_not_taken_for_parts(tmp_path, content, name):
    assert open_bytes(tmp_path, content, name).architecture == "tiny"


def test_claims_do_not_cost_memory(tmp_path):
    entries = [entry("k", ARRAY, array(F32, (1 << 24) - 1, b""))]
    tracemalloc.start()
    refused(tmp_path, image(*entries), TruncatedFile, "missing")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.fixture
def sound(tmp_path) -> bytes:
    path = tmp_path / "sound.gguf"
    metadata = {
        "general.name": "sound",
        "tiny.n": 3,
        "tiny.f": 0.5,
        "tiny.yes": True,
        "tokenizer.ggml.tokens": ["a", "bc", ""],
        "tokenizer.ggml.scores": [1.0, 2.0, 3.0],
        "general.alignment": 32,
    }
    values = np.linspace(-1, 1, 256, dtype=np.float32)[None]
    tensors = {
        "w": (values, Quant.Q4_K),
        "v": (values[:, :64], Quant.Q5_0),
        "n": (values[0, :5], Quant.F32),
    }
    write_gguf(path, "tiny", metadata, tensors)
    return path.read_bytes()


def survives(path, content: bytes) -> bool:
    """Whether a bent file opens; anything but a FormatError on the way fails the test."""
    path.write_bytes(content)
    try:
        with open_gguf(path) as file:
            for name in file.tensors:
                file.dequantise(name)
            return True
    except FormatError:
        return False


def test_every_truncation_is_refused(tmp_path, sound):
    for length in range(len(sound) - 31):  # the last tensor is followed by up to 31 padding bytes
        assert not survives(tmp_path / "bent.gguf", sound[:length]), length


@pytest.mark.parametrize("seed", range(4))
def test_bent_bytes_give_a_format_error_or_a_file(tmp_path, sound, seed):
    rng = np.random.default_rng(seed)
    header = len(sound) - (160 + 64 + 32)  # what follows is weights, which may be anything
    opened = 0
    for _ in range(500):
        bent = np.frombuffer(sound, np.uint8).copy()
        places = rng.integers(0, header, rng.integers(1, 4))
        bent[places] = rng.choice([0, 1, 127, 128, 255, rng.integers(256)], len(places))
        opened += survives(tmp_path / "bent.gguf", bent.tobytes())
    assert 0 < opened < 500


def test_bent_pieces_give_a_format_error_or_a_file(tmp_path, sound):
    rng = np.random.default_rng(9)
    for _ in range(300):
        first, last = sorted(rng.integers(0, len(sound), 2))
        at = rng.integers(0, len(sound))
        survives(tmp_path / "bent.gguf", sound[:at] + sound[first:last] + sound[at:])
        survives(tmp_path / "bent.gguf", sound[:first] + sound[last:])
