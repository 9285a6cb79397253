"""Weights: what a packed matrix takes in memory, and how it is cut under a binding limit."""

import pytest

from engine.tensor.weights import WeightDesc, WeightError, split_rows

MIB = 2**20


def q4(rows: int, cols: int) -> WeightDesc:
    return WeightDesc(rows, cols, "q4_0", cols // 8, cols // 64, (rows,))


def test_bytes_are_both_planes_of_every_row():
    desc = q4(576, 1536)
    assert desc.row_bytes == 1536 // 2 + 1536 // 32 * 2
    assert desc.nbytes == 576 * desc.row_bytes == desc.code_bytes(0) + desc.scale_bytes(0)


def test_float_kinds_have_no_scales():
    assert WeightDesc(8, 64, "f16", 32, 0, (8,)).scale_bytes(0) == 0


def test_a_small_matrix_stays_whole():
    assert split_rows(576, 288, 36, 128 * MIB) == (576,)


def test_a_large_matrix_is_cut_into_equal_parts_and_a_shorter_last_one():
    assert split_rows(10, 100, 0, 450) == (4, 4, 2)


def test_the_larger_plane_decides():
    assert split_rows(10, 10, 100, 450) == (4, 4, 2)


def test_parts_are_aligned_and_cover_all_rows():
    parts = split_rows(262_144, 640 * 2, 0, 128 * MIB, align_rows=64)
    assert sum(parts) == 262_144
    assert all(rows % 64 == 0 for rows in parts[:-1])
    assert max(parts) * 1280 <= 128 * MIB
    assert len(parts) == 3


@pytest.mark.parametrize("rows", [1, 7, 63, 64, 65, 1000])
@pytest.mark.parametrize("limit", [100, 130, 999, 6400, 10**6])
@pytest.mark.parametrize("align", [1, 4])
def test_no_object_exceeds_the_limit(rows: int, limit: int, align: int):
    row = 25
    parts = split_rows(rows, row, 4, limit, align)
    assert sum(parts) == rows
    assert max(parts) * row <= limit
    assert all(part == parts[0] for part in parts[:-1])
    assert parts[-1] <= parts[0]
    assert all(part % align == 0 for part in parts[:-1])


def test_split_keeps_everything_but_the_parts():
    desc = q4(1024, 4096)
    cut = desc.split(MIB)
    assert cut.parts == (512, 512)
    assert cut.starts == (0, 512)
    assert (cut.nbytes, cut.kind) == (desc.nbytes, desc.kind)
    assert max(cut.code_bytes(0), cut.code_bytes(1)) <= MIB


def test_a_row_over_the_limit_is_refused_with_numbers_and_a_next_step():
    with pytest.raises(WeightError, match=r"4 row\(s\).*take 400 bytes.*at most 399 bytes.*choose"):
        split_rows(10, 100, 0, 399, align_rows=4)


@pytest.mark.parametrize(
    "bad", [(0, 8, 8, 8, 1), (8, 0, 8, 8, 1), (8, 8, 8, 0, 1), (8, 8, 8, 8, 0)]
)
def test_nonsense_is_refused(bad: tuple[int, int, int, int, int]):
    with pytest.raises(WeightError, match="must be at least 1"):
        split_rows(*bad)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ((0, 8, "f16", 4, 0, (0,)), "needs rows and columns"),
        ((8, 8, "Q4_0", 4, 1, (8,)), "lower-case"),
        ((8, 8, "", 4, 1, (8,)), "lower-case"),
        ((8, 8, "f16", 0, 0, (8,)), "at least 1 code word"),
        ((8, 8, "f16", 4, -1, (8,)), "at least 1 code word"),
        ((8, 8, "f16", 4, 0, ()), "add up to its 8 rows"),
        ((8, 8, "f16", 4, 0, (4, 3)), "add up to its 8 rows"),
        ((8, 8, "f16", 4, 0, (9, -1)), "add up to its 8 rows"),
    ],
)
def test_a_description_that_cannot_be_right_is_refused(fields, sentence: str):
    with pytest.raises(WeightError, match=sentence):
        WeightDesc(*fields)
