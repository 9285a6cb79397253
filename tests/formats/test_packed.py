"""The GPU layout keeps every weight bit for bit, in the words that the layout says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from engine.formats.errors import FormatError
from engine.formats.packed import Packed, pack, pack_into, packed_words, unpack
from engine.formats.quants import Quant, dequantise, quantise

FLOATS = (Quant.F32, Quant.F16, Quant.BF16)


def every(kinds=tuple(Quant)):
    return pytest.mark.parametrize("quant", kinds, ids=lambda quant: quant.name)


def random_raw(quant: Quant, rows: int, cols: int, seed: int = 0) -> np.ndarray:
    """Random bytes, but with small positive float16 scales so that no weight is NaN."""
    rng = np.random.default_rng(seed)
    if quant in FLOATS:
        return quantise(rng.normal(size=(rows, cols)).astype(np.float32), quant)
    raw = rng.integers(0, 256, (rows, quant.row_bytes(cols)), np.uint8)
    blocks = raw.reshape(rows, -1, quant.block_bytes)
    for field in {Quant.Q6_K: (208,), Quant.Q4_0: (0,), Quant.Q8_0: (0,), Quant.Q5_0: (0,)}.get(
        quant, (0, 2)
    ):
        numbers = rng.normal(size=blocks.shape[:2]).astype(np.float16)
        blocks[..., field : field + 2] = numbers[..., None].view(np.uint8)
    return raw


def same_bits(got: np.ndarray, expected: np.ndarray) -> bool:
    return got.shape == expected.shape and np.array_equal(
        got.view(np.uint32), expected.view(np.uint32)
    )


def shapes(quant: Quant) -> list[tuple[int, int]]:
    if quant in FLOATS:
        return [(1, 1), (3, 31), (2, 32), (5, 33), (7, 100)]
    return [(rows, quant.block * blocks) for rows, blocks in [(1, 1), (3, 2), (5, 3), (2, 9)]]


@every()
def test_unpack_of_pack_is_dequantise_bit_for_bit(quant):
    for rows, cols in shapes(quant):
        raw = random_raw(quant, rows, cols)
        packed = pack(raw, quant, cols)
        assert (packed.codes.shape[1], packed.scales.shape[1]) == packed_words(quant, cols)
        assert same_bits(unpack(packed, quant, cols), dequantise(raw, quant, cols)), (rows, cols)


@every()
def test_many_chunks_give_the_same_as_one_row_at_a_time(quant):
    cols = 2048
    raw = random_raw(quant, 4 * (1 << 19) // quant.row_bytes(cols), cols, 1)
    whole = pack(raw, quant, cols)
    for row in (0, 7, len(raw) // 2, len(raw) - 1):
        one = pack(raw[row : row + 1], quant, cols)
        assert np.array_equal(whole.codes[row], one.codes[0])
        assert np.array_equal(whole.scales[row], one.scales[0])


@every()
def test_row_ranges_packed_by_threads_join_into_the_whole(quant):
    cols, rows = 768, 37
    raw = random_raw(quant, rows, cols, 2)
    whole = pack(raw, quant, cols)
    joined = Packed(np.full_like(whole.codes, 0xAB), np.full_like(whole.scales, 0xAB))

    def part(first: int) -> None:
        last = min(first + 5, rows)
        pack_into(
            raw, quant, cols, joined.codes[first:last], joined.scales[first:last],
            first=first, last=last,
        )  # fmt: skip

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(part, range(0, rows, 5)))
    assert np.array_equal(joined.codes, whole.codes)
    assert np.array_equal(joined.scales, whole.scales)


def test_pack_writes_into_given_planes():
    raw = random_raw(Quant.Q5_0, 3, 96)
    out = Packed(np.full((3, 12), 9, np.uint32), np.full((3, 6), 9, np.uint32))
    assert pack(raw, Quant.Q5_0, 96, out=out) is out
    assert same_bits(unpack(out, Quant.Q5_0, 96), dequantise(raw, Quant.Q5_0, 96))


@every()
def test_views_that_are_not_contiguous_are_packed_too(quant):
    raw = random_raw(quant, 6, 256)
    spread = np.zeros((12, raw.shape[1] + 3), np.uint8)
    spread[::2, 3:] = raw
    got, expected = pack(spread[::2, 3:], quant, 256), pack(raw, quant, 256)
    assert np.array_equal(got.codes, expected.codes)
    assert np.array_equal(got.scales, expected.scales)


def code_of(packed: Packed, group: int, element: int) -> int:
    """The low four bits of an element, as the layout's text says where they lie."""
    half, at = divmod(element, 16)
    word, byte = divmod(at, 4)
    return int(packed.codes[0, 4 * group + word]) >> (8 * byte + 4 * half) & 15


def fifth_bit_of(word: int, element: int) -> int:
    return int(word) >> (8 * (element % 4) + element // 4) & 1


@every([Quant.Q4_0, Quant.Q4_1, Quant.Q4_K])
def test_nibbles_lie_where_the_layout_says(quant):
    codes = np.random.default_rng(3).integers(0, 16, 256)
    codes[:] = np.where(np.arange(256) % 32 == 0, 0, codes)
    codes[:] = np.where(np.arange(256) % 32 == 1, 15, codes)
    centre = 8 if quant is Quant.Q4_0 else 0
    packed = pack(quantise((codes - centre).astype(np.float32)[None], quant), quant, 256)
    got = [code_of(packed, group, element) for group in range(8) for element in range(32)]
    assert got == codes.tolist()


@every([Quant.Q5_0, Quant.Q5_1, Quant.Q5_K])
def test_fifth_bits_lie_where_the_layout_says(quant):
    codes = np.random.default_rng(4).integers(0, 32, 256)
    codes[:] = np.where(np.arange(256) % 32 == 0, 0, codes)
    codes[:] = np.where(np.arange(256) % 32 == 1, 31, codes)
    centre = 16 if quant is Quant.Q5_0 else 0
    packed = pack(quantise((codes - centre).astype(np.float32)[None], quant), quant, 256)
    scales = packed.scales[0]
    if quant is Quant.Q5_0:
        words = scales.reshape(-1, 3)[:, :2].reshape(-1)
    else:
        words = scales[0::2] if quant is Quant.Q5_1 else scales[4:]
    got = [fifth_bit_of(words[g], element) for g in range(8) for element in range(32)]
    assert got == (codes >> 4).tolist()


def test_q6_k_high_bits_lie_where_the_layout_says():
    codes = np.random.default_rng(5).integers(0, 64, 256)
    codes[::16] = 0
    packed = pack(quantise((codes - 32).astype(np.float32)[None], Quant.Q6_K), Quant.Q6_K, 256)
    got = []
    for group in range(8):
        for element in range(32):
            word = int(packed.scales[0, 2 * group + element // 16])
            low = code_of(packed, group, element)
            high = word >> (8 * (element % 4) + 2 * (element % 16 // 4)) & 3
            got.append(low | high << 4)
    assert got == codes.tolist()


def test_padding_of_odd_rows_is_zero():
    packed = pack(np.full((2, 18), 255, np.uint8), Quant.Q4_0, 32)
    assert packed.scales.tolist() == [[0xFFFF], [0xFFFF]]
    packed = pack(np.full((2, 22), 255, np.uint8), Quant.Q5_0, 32)
    assert packed.scales.tolist() == [[0xFFFFFFFF, 0, 0xFFFF]] * 2
    packed = pack(quantise(np.ones((2, 33), np.float32), Quant.F16), Quant.F16, 33)
    assert not packed.codes.view(np.float16)[:, 33:].any()


@pytest.mark.parametrize(
    ("quant", "cols", "words"),
    [
        (Quant.F32, 33, (64, 0)),
        (Quant.BF16, 32, (16, 0)),
        (Quant.Q8_0, 96, (24, 2)),
        (Quant.Q4_0, 96, (12, 2)),
        (Quant.Q4_1, 96, (12, 3)),
        (Quant.Q5_0, 96, (12, 6)),
        (Quant.Q5_1, 96, (12, 6)),
        (Quant.Q4_K, 512, (64, 8)),
        (Quant.Q5_K, 512, (64, 24)),
        (Quant.Q6_K, 512, (64, 42)),
    ],
    ids=str,
)
def test_words_of_a_row(quant, cols, words):
    assert packed_words(quant, cols) == words


def test_planes_of_another_shape_are_refused():
    raw = random_raw(Quant.Q4_0, 4, 64)
    good, wrong = np.zeros((4, 8), np.uint32), np.zeros((4, 9), np.uint32)
    with pytest.raises(FormatError, match=r"uint32 \[4, 8\]"):
        pack_into(raw, Quant.Q4_0, 64, wrong, np.zeros((4, 1), np.uint32))
    with pytest.raises(FormatError, match=r"uint32 \[4, 8\]"):
        pack_into(raw, Quant.Q4_0, 64, wrong[:, :8], np.zeros((4, 1), np.uint32))
    with pytest.raises(FormatError, match="Rows 3 to 5"):
        pack_into(raw, Quant.Q4_0, 64, good, np.zeros((4, 1), np.uint32), first=3, last=5)
