"""The colours: text can be read on every ground it is used on."""

from __future__ import annotations

import re

import pytest

from app.theme import DARK, LIGHT, Tokens
from app.theme.style import style_sheet
from app.theme.tokens import contrast

READABLE = 4.5  # WCAG AA
# text role -> the grounds it is used on (see app.theme.tokens)
USED = {
    "text": ("background", "panel", "sunken", "accent_soft"),
    "dim": ("background", "panel"),
    "accent": ("background", "panel", "accent_soft"),
    "warning": ("background", "panel"),
    "bad": ("background", "panel"),
    "on_accent": ("accent",),
}
PAIRS = [(role, ground) for role, grounds in USED.items() for ground in grounds]


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=lambda t: t.name)
@pytest.mark.parametrize(("role", "ground"), PAIRS)
def test_text_reads_well(tokens: Tokens, role: str, ground: str) -> None:
    assert contrast(getattr(tokens, role), getattr(tokens, ground)) >= READABLE


def test_contrast_is_the_wcag_ratio() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#ffffff", "#777777") == contrast("#777777", "#ffffff")


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=lambda t: t.name)
def test_the_style_sheet_uses_only_the_tokens(tokens: Tokens) -> None:
    used = set(re.findall(r"#[0-9a-f]{6}", style_sheet(tokens)))
    assert used <= {value for value in vars(tokens).values() if isinstance(value, str)}


def test_disabled_faint_text_is_not_used_for_words() -> None:
    rules = re.findall(r"QLabel\[kind=[^}]*}", style_sheet(LIGHT))
    assert not [rule for rule in rules if LIGHT.faint in rule]
