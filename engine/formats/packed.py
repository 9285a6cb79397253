"""Weights as the GPU reads them: 32-bit words, at the file's own bits per weight.

A *group* is 32 consecutive weights of a row; a row has G = ceil(cols / 32) groups. Two planes:

codes  float kinds: the numbers, element 2i of a 16-bit kind in the low half of word i; columns are
       padded with zeros to whole groups. Q8_0: signed bytes in order, 8 words a group. All others:
       4 words a group; byte i of word w holds the low 4 bits of element 4w + i (low nibble) and of
       element 16 + 4w + i (high nibble).
scales per row. "qh" is one word a group with the fifth bits: bit w of byte i belongs to element
       4w + i, for w = 0..7.
       Q4_0, Q8_0  d of two groups a word (even group low)
       Q4_1        d | m << 16
       Q5_0        per two groups: qh, qh, d | d << 16
       Q5_1        qh, d | m << 16
       Q4_K        per 256: d | dmin << 16; then bytes: eight sc_g | (m_g >> 4) << 6, four with
                   m_g & 15 of two groups each (even group in the low nibble)
       Q5_K        per 256: as Q4_K, then 8 qh
       Q6_K        per 256: per group two words of high bits (elements 0..15, then 16..31; bits
                   2w, 2w + 1 of byte i belong to element 4w + i), 16 int8 sub-scales, d

A weight is scale * code - minimum, with scale and minimum per half group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.formats.errors import FormatError
from engine.formats.kinds import Bytes, Floats, Quant, Words, check_raw
from engine.formats.packers import PACKERS, view
from engine.formats.unpackers import unpack_codes, unpack_float, unpack_scales

GROUP = 32
CHUNK_BYTES = 1 << 19  # packed at a time: the chunk and its scratch stay in the second-level cache


@dataclass(frozen=True)
class Packed:
    """The two planes: codes ``[rows, code_words]`` and scales ``[rows, scale_words]``."""

    codes: Words
    scales: Words


def packed_words(quant: Quant, cols: int) -> tuple[int, int]:
    """Words of a row in the codes plane and in the scales plane. Raises FormatError."""
    quant.row_bytes(cols)
    groups = -(-cols // GROUP)
    pairs, supers = -(-groups // 2), groups // 8
    scale_words = {
        Quant.Q4_0: pairs,
        Quant.Q8_0: pairs,
        Quant.Q4_1: groups,
        Quant.Q5_0: 3 * pairs,
        Quant.Q5_1: 2 * groups,
        Quant.Q4_K: 4 * supers,
        Quant.Q5_K: 12 * supers,
        Quant.Q6_K: 21 * supers,
    }
    code_words = {Quant.F32: 32, Quant.F16: 16, Quant.BF16: 16, Quant.Q8_0: 8}
    return code_words.get(quant, 4) * groups, scale_words.get(quant, 0)


def pack(raw: Bytes, quant: Quant, cols: int, *, out: Packed | None = None) -> Packed:
    """Repack a tensor of uint8 ``[rows, quant.row_bytes(cols)]``; into ``out`` if given."""
    if out is None:
        code_words, scale_words = packed_words(quant, cols)
        rows = raw.shape[0]
        out = Packed(
            np.empty((rows, code_words), np.uint32), np.empty((rows, scale_words), np.uint32)
        )
    pack_into(raw, quant, cols, out.codes, out.scales)
    return out


def pack_into(
    raw: Bytes,
    quant: Quant,
    cols: int,
    codes: Words,
    scales: Words,
    *,
    first: int = 0,
    last: int | None = None,
) -> None:
    """Repack rows ``first`` to ``last`` (not included) of ``raw`` into row 0 on of the planes.

    ``codes`` is C-contiguous uint32 ``[last - first, code_words]``, ``scales`` the same with
    ``scale_words``. Threads may pack different rows at once: the work releases the lock of the
    interpreter. Raises FormatError when shapes do not fit.
    """
    check_raw(raw, quant, cols)
    end = raw.shape[0] if last is None else last
    if not 0 <= first <= end <= raw.shape[0]:
        raise FormatError(f"Rows {first} to {end} are not rows of a tensor of {raw.shape[0]}.")
    for plane, words in zip((codes, scales), packed_words(quant, cols), strict=True):
        _check_plane(plane, end - first, words)
    step = max(1, CHUNK_BYTES // raw.shape[1])
    packer = PACKERS[quant]
    for row in range(first, end, step):
        stop = min(row + step, end)
        chunk = np.ascontiguousarray(raw[row:stop])
        to = slice(row - first, stop - first)
        packer(view(chunk, quant), codes[to], scales[to])


def _check_plane(plane: Words, rows: int, words: int) -> None:
    if plane.shape != (rows, words) or plane.dtype != np.uint32 or not plane.flags.c_contiguous:
        raise FormatError(
            f"This plane is contiguous uint32 [{rows}, {words}], not {plane.dtype} "
            f"{list(plane.shape)}."
        )


def unpack(packed: Packed, quant: Quant, cols: int) -> Floats:
    """The weights, float32 ``[rows, cols]``, bit for bit what ``quants.dequantise`` gives.

    It reads the planes as the shaders do, from the layout alone: the reference for their tests.
    """
    rows = packed.codes.shape[0]
    for plane, words in zip((packed.codes, packed.scales), packed_words(quant, cols), strict=True):
        _check_plane(plane, rows, words)
    if quant.is_float:
        return unpack_float(packed.codes, quant)[:, :cols].copy()
    with np.errstate(invalid="ignore", over="ignore"):
        codes = unpack_codes(packed.codes, packed.scales, quant)  # [rows, groups, 32]
        scale, minimum = unpack_scales(packed.scales, quant, codes.shape[1])
        halves = codes.reshape(rows, -1, 2, GROUP // 2)
        values = scale[..., None] * halves - minimum[..., None]
    return values.reshape(rows, cols)
