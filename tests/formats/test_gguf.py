"""Reading and writing GGUF files, checked against the ``gguf`` package both ways."""

from __future__ import annotations

import time

import gguf
import numpy as np
import pytest

from engine.formats.errors import CorruptFile, FormatError
from engine.formats.gguf import open_gguf, write_gguf
from engine.formats.quants import Quant, dequantise, quantise

METADATA = {
    "general.name": "Tëst",
    "tiny.block_count": 2,
    "tiny.rope.freq_base": 10000.0,
    "tiny.negative": -3,
    "tiny.large": 1 << 40,
    "tiny.flag": True,
    "tokenizer.ggml.tokens": ["<s>", "a", "", "é"],
    "tokenizer.ggml.scores": [0.0, -1.5, 2.0, 0.25],
    "tokenizer.ggml.token_type": [3, 1, 1, 1],
    "tiny.flags": [True, False],
    "tiny.nothing": [],
}


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


@pytest.fixture
def tiny(tmp_path):
    """A file with a tensor of every kind."""
    path = tmp_path / "tiny.gguf"
    tensors = {f"blk.{q.value}.weight": (weights(3, 256), q) for q in Quant}
    tensors["norm"] = (weights(5), Quant.F32)
    tensors["conv"] = (weights(2, 3, 64), Quant.Q8_0)
    write_gguf(path, "tiny", METADATA, tensors)
    return path


def test_metadata_comes_back_as_plain_values(tiny):
    with open_gguf(tiny) as file:
        assert file.architecture == "tiny"
        assert dict(file.metadata) == {"general.architecture": "tiny", **METADATA}
        assert type(file.metadata["tiny.block_count"]) is int
        assert type(file.metadata["tiny.flag"]) is bool


@pytest.mark.parametrize("quant", Quant, ids=lambda quant: quant.name)
def test_tensors_come_back(tiny, quant):
    with open_gguf(tiny) as file:
        info = file.tensors[f"blk.{quant.value}.weight"]
        assert (info.shape, info.rows, info.cols) == ((3, 256), 3, 256)
        assert info.nbytes == 3 * info.row_bytes == file.raw(info.name).nbytes
        assert info.offset % 32 == 0
        stored = quantise(weights(3, 256), quant)
        assert np.array_equal(file.raw(info.name), stored)
        assert np.array_equal(file.dequantise(info.name), dequantise(stored, quant, 256))


def test_vectors_and_stacks_keep_their_shape(tiny):
    with open_gguf(tiny) as file:
        assert np.array_equal(file.dequantise("norm"), weights(5))
        assert file.raw("norm").shape == (1, 20)
        assert file.dequantise("conv").shape == (2, 3, 64)
        assert file.raw("conv").shape == (6, 68)


def test_our_file_is_read_by_the_gguf_package(tiny):
    reader = gguf.GGUFReader(tiny)
    assert reader.get_field("tokenizer.ggml.tokens").contents() == ["<s>", "a", "", "é"]
    assert reader.get_field("tiny.large").contents() == 1 << 40
    with open_gguf(tiny) as file:
        assert [tensor.name for tensor in reader.tensors] == list(file.tensors)
        for tensor in reader.tensors:
            info = file.tensors[tensor.name]
            assert tuple(reversed(tensor.shape.tolist())) == info.shape
            assert (tensor.tensor_type.value, tensor.data_offset) == (
                info.quant.value,
                info.offset,
            )


def test_we_read_a_file_of_the_gguf_package(tmp_path):
    path = tmp_path / "theirs.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_token_list(["x", "y"])
    writer.add_token_scores([1.0, 2.0])
    writer.add_custom_alignment(64)
    raw = quantise(weights(4, 64), Quant.Q4_0)
    writer.add_tensor("w", raw, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    writer.add_tensor("v", weights(7).astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open_gguf(path) as file:
        assert (file.version, file.architecture) == (3, "llama")
        assert file.metadata["llama.context_length"] == 128
        assert file.metadata["tokenizer.ggml.scores"] == [1.0, 2.0]
        assert np.array_equal(file.raw("w"), raw)
        assert file.tensors["w"].offset % 64 == 0
        assert file.dequantise("v").tolist() == weights(7).astype(np.float16).tolist()


def test_tokens_with_broken_utf8_keep_their_bytes(tmp_path):
    token = b"\xff\xfe\xe2\x82".decode("utf-8", "surrogateescape")
    path = tmp_path / "t.gguf"
    write_gguf(path, "tiny", {"tokenizer.ggml.tokens": ["ok", token]}, {})
    with open_gguf(path) as file:
        tokens = file.metadata["tokenizer.ggml.tokens"]
        assert tokens[1].encode("utf-8", "surrogateescape") == b"\xff\xfe\xe2\x82"


def test_broken_utf8_in_a_single_text_is_replaced(tmp_path):
    path = tmp_path / "t.gguf"
    write_gguf(path, "tiny", {"general.name": "a\udcffb"}, {})
    with open_gguf(path) as file:
        assert file.metadata["general.name"] == "a\N{REPLACEMENT CHARACTER}b"


def test_arrays_outlive_the_file_and_cannot_be_written(tiny):
    file = open_gguf(tiny)
    raw = file.raw("norm")
    file.close()
    file.close()
    assert raw.view(np.float32)[0].tolist() == weights(5).tolist()
    assert not raw.flags.writeable
    with pytest.raises(FormatError, match="closed"):
        file.raw("norm")


def test_an_unknown_tensor_is_named(tiny):
    with open_gguf(tiny) as file, pytest.raises(CorruptFile, match=r"no tensor named 'nope'"):
        file.raw("nope")


def test_a_large_vocabulary_is_parsed_fast(tmp_path):
    path = tmp_path / "large.gguf"
    tokens = [f"token{index}é" for index in range(150_000)]
    merges = [f"tok{index} en{index}" for index in range(150_000)]
    metadata = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.scores": [0.5] * 150_000,
        "tokenizer.ggml.token_type": [1] * 150_000,
    }
    write_gguf(path, "tiny", metadata, {})
    times = []
    for _ in range(3):
        start = time.process_time()
        file = open_gguf(path)
        times.append(time.process_time() - start)
        assert file.metadata["tokenizer.ggml.tokens"] == tokens
        file.close()
    assert min(times) < 0.5


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "t.gguf"
    write_gguf(path, "tiny", {}, {"w": (weights(1, 32), Quant.Q4_0)})
    before = path.read_bytes()
    bad = weights(1, 32) * np.inf
    with pytest.raises(FormatError, match="infinite"):
        write_gguf(path, "tiny", {}, {"w": (bad, Quant.Q4_0)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_raw_rows_are_written_as_they_are(tmp_path):
    path = tmp_path / "t.gguf"
    raw = np.arange(2 * 36, dtype=np.uint8).reshape(2, 36)
    write_gguf(path, "tiny", {}, {"w": (raw, Quant.Q4_0)})
    with open_gguf(path) as file:
        assert file.tensors["w"].shape == (2, 64)
        assert np.array_equal(file.raw("w"), raw)


@pytest.mark.parametrize(
    ("metadata", "tensors", "message"),
    [
        ({"k": None}, {}, "'k', a NoneType"),
        ({"k": ["a", 1]}, {}, "items of one plain kind"),
        ({"k": [["a"]]}, {}, "items of one plain kind"),
        ({"k": 1 << 70}, {}, "64 bits"),
        ({"k": np.zeros((2, 2), np.float32)}, {}, "not a plain vector"),
        ({"general.alignment": 24}, {}, "power of two"),
        ({}, {"w": (np.zeros((1, 17), np.uint8), Quant.Q4_0)}, "rows of 17 bytes"),
        ({}, {"w": (np.zeros((1, 33), np.float32), Quant.Q4_0)}, "multiple of 32"),
        ({}, {"w": (np.zeros((0, 32), np.float32), Quant.Q4_0)}, r"shape \[0, 32\]"),
    ],
    ids=str,
)
def test_what_gguf_cannot_hold_is_refused(tmp_path, metadata, tensors, message):
    with pytest.raises(FormatError, match=message):
        write_gguf(tmp_path / "t.gguf", "tiny", metadata, tensors)
    assert not list(tmp_path.iterdir())
