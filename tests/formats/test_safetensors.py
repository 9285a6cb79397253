"""Safetensors files are read exactly, and broken or hostile ones refused with the reason."""

from __future__ import annotations

import json
import struct
import tracemalloc

import numpy as np
import pytest

from engine.formats.errors import (
    CorruptFile,
    FormatError,
    NotAModelFile,
    TruncatedFile,
    UnsupportedFile,
)
from engine.formats.safetensors import open_safetensors, write_safetensors

HUGE = 1 << 60


def image(header, data: bytes = b"", length: int | None = None) -> bytes:
    """A file of a header (an object, or the very text) and numbers, each of which may be bent."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), start=0, end=8) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def open_bytes(tmp_path, content: bytes, name="model.safetensors"):
    path = tmp_path / name
    path.write_bytes(content)
    with open_safetensors(path) as file:
        return file


def refused(tmp_path, content: bytes, kind: type[FormatError], message: str, **more):
    with pytest.raises(kind, match=message) as caught:
        open_bytes(tmp_path, content, **more)
    assert type(caught.value) is kind
    assert str(caught.value).endswith(".")


# ---- Sound files


def test_what_is_written_is_read(tmp_path):
    tensors = {
        "half": np.arange(6, dtype=np.float16).reshape(2, 3),
        "single": np.array(1.5, np.float32),
        "double": np.array([[1e-3]]),
        "whole": np.array([-3, 7], np.int64),
        "bytes": np.array([255], np.uint8),
        "none": np.zeros((0, 4), np.float32),
    }
    write_safetensors(tmp_path / "m.safetensors", tensors, {"format": "pt", "title": "日本"})
    with open_safetensors(tmp_path / "m.safetensors") as file:
        assert set(file.tensors) == set(tensors)
        assert file.metadata == {"format": "pt", "title": "日本"}
        for name, values in tensors.items():
            read = file.array(name)
            assert (read.dtype, read.shape) == (np.float32, values.shape)
            np.testing.assert_array_equal(read, values.astype(np.float32))
            assert file.tensors[name].offset % max(values.itemsize, 1) == 0


def test_the_official_library_reads_what_is_written(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    values = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float16)
    write_safetensors(tmp_path / "m.safetensors", {"a": values, "b": values[0]})
    np.testing.assert_array_equal(library.load_file(tmp_path / "m.safetensors")["a"], values)


@pytest.mark.parametrize(
    ("dtype", "raw", "expected"),
    [
        ("BF16", b"\x80\x3f\x20\xc1", [1.0, -10.0]),
        ("F16", b"\x00\x3c\x01\x00", [1.0, 2.0**-24]),
        ("F8_E4M3", bytes([0x38, 0xC0, 0x7E, 0x01]), [1.0, -2.0, 448.0, 2.0**-9]),
        ("F8_E5M2", bytes([0x3C, 0xC0, 0x7B, 0x01]), [1.0, -2.0, 57344.0, 2.0**-16]),
        ("I8", b"\xff\x05", [-1, 5]),
        ("U16", b"\xff\xff", [65535]),
        ("BOOL", b"\x01\x00", [1, 0]),
        ("F64", struct.pack("<d", 0.1), [np.float32(0.1)]),
    ],
)
def test_types_become_float32(tmp_path, dtype, raw, expected):
    path = tmp_path / "m.safetensors"
    path.write_bytes(image({"x": entry(dtype, (len(expected),), 0, len(raw))}, raw))
    with open_safetensors(path) as file:
        np.testing.assert_array_equal(file.array("x"), np.float32(expected))


def test_special_8_bit_floats(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(image({"x": entry("F8_E5M2", (3,), 0, 3)}, bytes([0x7C, 0xFC, 0x7F])))
    with open_safetensors(path) as file:
        values = file.array("x")
    assert list(values[:2]) == [np.inf, -np.inf]
    assert np.isnan(values[2])


def test_the_raw_bytes_outlive_the_file(tmp_path):
    write_safetensors(tmp_path / "m.safetensors", {"x": np.arange(4, dtype=np.float32)})
    file = open_safetensors(tmp_path / "m.safetensors")
    raw = file.raw("x")
    file.close()
    assert raw.view("<f4").tolist() == [0, 1, 2, 3]
    assert not raw.flags.writeable
    with pytest.raises(FormatError, match="is closed"):
        file.raw("x")


def test_arrays_are_copies(tmp_path):
    write_safetensors(tmp_path / "m.safetensors", {"x": np.ones(4, np.float32)})
    with open_safetensors(tmp_path / "m.safetensors") as file:
        file.array("x")[:] = 5
        assert file.array("x").tolist() == [1, 1, 1, 1]


def test_unknown_tensors_are_named(tmp_path):
    write_safetensors(tmp_path / "m.safetensors", {"x": np.ones(4, np.float32)})
    with open_safetensors(tmp_path / "m.safetensors") as file, pytest.raises(CorruptFile) as caught:
        file.array("y" * 200)
    assert len(str(caught.value)) < 150


def test_spaces_after_the_header_and_odd_places_are_sound(tmp_path):
    content = image(b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   ', b"\0\0\x80\x3f")
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    with open_safetensors(path) as file:
        assert file.array("x").tolist() == [1.0]


def test_an_empty_header_is_a_file_without_tensors(tmp_path):
    assert open_bytes(tmp_path, image(b"{}")).tensors == {}


# ---- Files that are something else


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"GGUF" + bytes(40), "starts with"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b'{"error": "gated"}', "JSON"),
        (b"version https://git-lfs.github.com/spec/v1\nsize 7\n", "Git LFS pointer"),
        (bytes(600), "only zeros"),
        (b"\x1f\x8b\x08" + bytes(40), "gzip"),
    ],
)
def test_other_files_are_named_for_what_they_are(tmp_path, content, message):
    refused(tmp_path, content, NotAModelFile, message)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.ckpt", b"PK\x03\x04archive/data.pkl" + bytes(40)),
        ("m.safetensors", b"PK\x03\x04archive/data.pkl" + bytes(40)),
        ("m.pt", b"\x80\x02}q\x00." + bytes(40)),
        ("m.bin", b"anything else"),
        ("m.PTH", b"anything else"),
    ],
)
def test_pickles_are_refused_with_the_reason(tmp_path, name, content):
    refused(tmp_path, content, UnsupportedFile, "can run code.*Get the model as", name=name)


def test_a_safetensors_file_named_like_a_pickle_is_read(tmp_path):
    assert open_bytes(tmp_path, image({"x": entry()}, bytes(8)), name="m.bin").tensors


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(NotAModelFile, match="no file"):
        open_safetensors(tmp_path / "none")
    with pytest.raises(NotAModelFile, match="folder"):
        open_safetensors(tmp_path)


# ---- Broken and hostile headers


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (image(b"{}", length=HUGE), CorruptFile, "claims 1,152,921,504,606,846,976 bytes"),
        (image(b"{}", length=900), TruncatedFile, "inside its header: at least 898"),
        (image(b"{x}"), CorruptFile, "not JSON"),
        (image(b'{"a": \xff}'), CorruptFile, "not JSON"),
        (image(b'{"a":' + b"[" * 100_000), CorruptFile, "not JSON"),
        (image(b'{"a":' + b"9" * 10_000 + b"}"), CorruptFile, "not JSON"),
        (image(b'{"a": {}, "a": {}}'), CorruptFile, "'a' twice"),
        (image(b'{"a":{"dtype":"F32","dtype":"F16"}}'), CorruptFile, "'dtype' twice"),
        (image({"__metadata__": 3}), CorruptFile, "metadata is not"),
        (image({"x": 3}), CorruptFile, "'x' has no type"),
        (image({"x": {}}), CorruptFile, "'x' has no type"),
        (image({"x": entry("F128")}), UnsupportedFile, "'x' is F128"),
        (image({"x": {**entry(), "shape": None}}), CorruptFile, "impossible shape"),
        (image({"x": {**entry(), "shape": [-1]}}), CorruptFile, "impossible shape"),
        (image({"x": {**entry(), "shape": [2.0]}}), CorruptFile, "impossible shape"),
        (image({"x": {**entry(), "shape": [True]}}), CorruptFile, "impossible shape"),
        (image({"x": {**entry(), "shape": [1] * 9}}), CorruptFile, "impossible shape"),
        (image({"x": {**entry(), "shape": [HUGE, HUGE]}}), CorruptFile, "claims the shape"),
        (image({"x": {**entry(), "data_offsets": [8, 0]}}), CorruptFile, "impossible place"),
        (image({"x": {**entry(), "data_offsets": [0]}}), CorruptFile, "impossible place"),
        (image({"x": {**entry(), "data_offsets": [0, 4]}}), CorruptFile, "takes 4 bytes.*need 8"),
        (image({"x": entry()}, bytes(3)), TruncatedFile, "5 of [0-9]+ bytes are missing"),
        (image({"x": entry()}, bytes(9)), CorruptFile, "1 bytes after its last tensor"),
        (image({"x": entry(start=4, end=12)}, bytes(12)), CorruptFile, "4 bytes before tensor"),
        (
            image({"x": entry(), "y": entry(start=4, end=12)}, bytes(12)),
            CorruptFile,
            "'x' and 'y' overlap by 4 bytes",
        ),
        (image({"x": entry(), "y": entry()}, bytes(8)), CorruptFile, "overlap by 8 bytes"),
    ],
)
def test_broken_headers(tmp_path, content, kind, message):
    refused(tmp_path, content, kind, message)


def test_a_hostile_header_costs_no_memory(tmp_path):
    tracemalloc.start()
    for length in (HUGE, 1 << 40, 1 << 30):
        refused(tmp_path, image(b'{"x": 1}', length=length), CorruptFile, "at most 16,777,216")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_long_names_do_not_flood_the_message(tmp_path):
    with pytest.raises(CorruptFile) as caught:
        open_bytes(tmp_path, image({"x" * 100_000: {}}))
    assert len(str(caught.value)) < 300


def test_every_cut_of_a_file_is_refused(tmp_path):
    whole = image({"a": entry(), "b": entry("F16", (3,), 8, 14)}, bytes(14))
    for length in range(len(whole)):
        with pytest.raises(FormatError):
            open_bytes(tmp_path, whole[:length])


def test_random_changes_raise_only_format_errors(tmp_path):
    random = np.random.default_rng(11)
    whole = image(
        {"__metadata__": {"k": "v"}, "a": entry(), "b": entry("F16", (3,), 8, 14)}, bytes(14)
    )
    path = tmp_path / "m.safetensors"
    for _ in range(1500):
        bent = bytearray(whole)
        for place in random.integers(0, len(bent), random.integers(1, 4)):
            bent[place] = random.integers(256)
        path.write_bytes(bytes(bent))
        try:
            with open_safetensors(path) as file:
                for name in file.tensors:
                    file.array(name)
        except FormatError:
            continue


def test_unwritten_types_are_refused(tmp_path):
    with pytest.raises(FormatError, match="complex64"):
        write_safetensors(tmp_path / "m", {"x": np.zeros(2, np.complex64)})
