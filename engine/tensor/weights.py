"""How a weight matrix lies in GPU memory: packed rows in two planes, cut over one or more objects.

A row has ``code_words`` 32-bit words in the codes plane and ``scale_words`` in the scales plane (0
for float kinds). A matrix larger than the device's binding limit is cut between rows into *parts*;
each part is one codes object and, when there are scales, one scales object.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

WORD = 4  # bytes of one packed word


class WeightError(ValueError):
    """A weight matrix that cannot be described or cut as asked; the message is a sentence."""


@dataclass(frozen=True)
class WeightDesc:
    """A packed ``[rows, cols]`` weight matrix.

    ``kind`` names the packing ("q4_0", "f16", ...), ``code_words`` and ``scale_words`` are words of
    one row in each plane, ``parts`` are the rows of each object, first rows first.
    """

    rows: int
    cols: int
    kind: str
    code_words: int
    scale_words: int
    parts: tuple[int, ...]

    def __post_init__(self) -> None:
        if min(self.rows, self.cols) < 1:
            raise WeightError(
                f"A weight matrix needs rows and columns, not {self.rows}x{self.cols}."
            )
        if not self.kind or self.kind != self.kind.lower():
            raise WeightError(f"The kind of a weight is a lower-case name, not {self.kind!r}.")
        if self.code_words < 1 or self.scale_words < 0:
            raise WeightError(
                f"A packed row needs at least 1 code word and 0 scale words, "
                f"not {self.code_words} and {self.scale_words}."
            )
        if not self.parts or min(self.parts) < 1 or sum(self.parts) != self.rows:
            raise WeightError(
                f"The parts {self.parts} of a weight must be positive "
                f"and add up to its {self.rows} rows."
            )

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, both planes."""
        return (self.code_words + self.scale_words) * WORD

    @property
    def nbytes(self) -> int:
        """Bytes of the whole matrix, both planes."""
        return self.rows * self.row_bytes

    @property
    def starts(self) -> tuple[int, ...]:
        """The first row of each part."""
        return (0, *itertools.accumulate(self.parts[:-1]))

    def code_bytes(self, part: int) -> int:
        """Bytes of the codes object of a part."""
        return self.parts[part] * self.code_words * WORD

    def scale_bytes(self, part: int) -> int:
        """Bytes of the scales object of a part (0: it has none)."""
        return self.parts[part] * self.scale_words * WORD

    def split(self, limit_bytes: int, align_rows: int = 1) -> WeightDesc:
        """The same matrix with no object over ``limit_bytes`` (see :func:`split_rows`)."""
        codes, scales = self.code_words * WORD, self.scale_words * WORD
        return replace(self, parts=split_rows(self.rows, codes, scales, limit_bytes, align_rows))


def split_rows(
    rows: int,
    bytes_per_row_codes: int,
    bytes_per_row_scales: int,
    limit_bytes: int,
    align_rows: int = 1,
) -> tuple[int, ...]:
    """Rows of each part so that neither of its objects exceeds ``limit_bytes``.

    As few parts as possible, all equal but the last, which may be shorter: a kernel finds the part
    of a row by one division. Every part but the last is a multiple of ``align_rows``.
    """
    if rows < 1 or align_rows < 1 or limit_bytes < 1 or bytes_per_row_codes < 1:
        raise WeightError(
            f"Cannot cut {rows} rows of {bytes_per_row_codes} bytes in steps of {align_rows} "
            f"under a limit of {limit_bytes} bytes: all four must be at least 1."
        )
    widest = max(bytes_per_row_codes, bytes_per_row_scales)
    if rows * widest <= limit_bytes:
        return (rows,)
    most = limit_bytes // widest // align_rows * align_rows
    if most == 0:
        raise WeightError(
            f"{align_rows} row(s) of this weight take {align_rows * widest:,} bytes, "
            f"and this device binds at most {limit_bytes:,} bytes at once. "
            "It cannot run this model; choose a smaller quantisation or another device."
        )
    count = -(-rows // most)
    each = -(-rows // count)
    each = -(-each // align_rows) * align_rows
    full, rest = divmod(rows, each)
    return (each,) * full + ((rest,) if rest else ())
