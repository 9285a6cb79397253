"""No template can hang the worker, fill its memory or get out."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from engine.text.chat_template import ChatTemplate, TemplateError
from engine.text.tokenizer import Tokenizer

DOUBLE_40_TIMES = {
    "sum": "{% set s = s + s %}",
    "concat": "{% set s = s ~ s %}",
    "capture": "{% set s %}{{ s }}{{ s }}{% endset %}",
    "join": "{% set s = [s, s] | join %}",
    "method": "{% set s = s.join(s) %}",
    "nested list": "{% set s = [s, s] %}",
    "nested tuple": "{% set s = (s, s) %}",
    "nested dict": "{% set s = {'a': s, 'b': s} %}",
    "dict call": "{% set s = dict(a=s, b=s) %}",
    "replace": "{% set s = s | replace('a', 'aaa') %}",
    "replace method": "{% set s = s.replace('a', 'aaa') %}",
    "multiplied": "{% set s = s * 2 %}",
}

TOO_MUCH = {
    "range": "{% for i in range(10 ** 12) %}{% endfor %}",
    "product": "{{ 'a' * 10 ** 9 }}",
    "product of a list": "{{ [1] * 10 ** 9 }}",
    "product the other way": "{{ 10 ** 9 * 'a' }}",
    "power": "{{ 10 ** (10 ** 10) }}",
    "squares": "{% set x = 9 %}" + "{% set x = x * x %}" * 40,
    "ljust": "{{ 'a'.ljust(10 ** 9) }}",
    "center": "{{ 'a' | center(10 ** 9) }}",
    "indent": "{{ 'a' | indent(10 ** 9, true) }}",
    "json indent": "{{ [1] | tojson(indent=10 ** 9) }}",
    "format": "{{ '%1000000000d' % 1 }}",
    "format star": "{{ '%*d' % (1000000000, 1) }}",
    "format method": "{{ '{:>1000000000}'.format(1) }}",
    "bytes": "{{ (1).to_bytes(10 ** 9, 'little') }}",
    "replace each": "{% set s = 'a' * 99999 %}{{ s | map('replace', 'a', s) | list }}",
    "slices": "{% set s = 'ab' * 999999 %}" + "{% set a = s[1:] %}" * 999,
    "endless macro": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "endless block": "{% block a %}{{ self.a() }}{% endblock %}",
    "endless loop": "{% for i in range(9) recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "nesting": "{% if x %}" * 5000,
    "long sum": "{{ 1" + " + 1" * 20_000 + " }}",
    "dates": "{{ strftime_now('%Y' * 999) }}",
    "output": "{% for i in range(9999) %}{{ 'a' * 9999 }}{% endfor %}",
}

TOO_LONG = {
    "nested loops": (
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    ),
    "filtered loops": "{% for i in range(99999) if false %}{% endfor %}" * 300,
    "macro tree": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}"
    ),
    "comparisons": (
        "{% set l = range(50000) | list %}{% for i in l %}{% if l == l[:] %}{% endif %}{% endfor %}"
    ),
}

WAYS_OUT = {
    "class": "{{ ''.__class__.__mro__ }}",
    "globals": "{{ cycler.__init__.__globals__ }}",
    "attribute filter": "{{ '' | attr('__class__') }}",
    "messages": "{{ messages.append(1) }}",
    "message": "{{ messages[0].update(role='system') }}",
    "include": "{% include 'x' %}",
    "import": "{% import 'os' as os %}",
    "generator": "{{ (messages | map('upper')).gi_frame.f_globals }}",
}


def fails(source: str, tokenizer: Tokenizer) -> str:
    """How a template fails, in words."""
    with pytest.raises(TemplateError) as error:
        ChatTemplate(source, tokenizer).render([{"role": "user", "content": "Hi"}])
    assert str(error.value).startswith("The chat template of this model ")
    return str(error.value)


@pytest.mark.parametrize("source", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_nothing_large_is_ever_made(source: str, chatml: Tokenizer) -> None:
    started = time.thread_time()
    fails(source, chatml)
    assert time.thread_time() - started < 2.5


@pytest.mark.parametrize("step", DOUBLE_40_TIMES.values(), ids=DOUBLE_40_TIMES.keys())
def test_nothing_grows_without_end(step: str, chatml: Tokenizer) -> None:
    source = "{% set s = 'aaaaaaaa' %}" + step * 40 + "{{ s }}"
    assert "makes" in fails(source, chatml)
    # A second time for the memory: counting allocations is so slow that time may end first.
    tracemalloc.start()
    fails(source, chatml)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.parametrize("source", TOO_LONG.values(), ids=TOO_LONG.keys())
def test_time_ends(source: str, chatml: Tokenizer) -> None:
    started = time.thread_time()
    assert "takes longer than 1 s" in fails(source, chatml)
    assert time.thread_time() - started < 2.5


@pytest.mark.parametrize("source", WAYS_OUT.values(), ids=WAYS_OUT.keys())
def test_there_is_no_way_out(source: str, chatml: Tokenizer) -> None:
    fails(source, chatml)


def test_a_template_that_failed_can_be_used_again(chatml: Tokenizer) -> None:
    source = "{% if messages[0].content == 'x' %}{{ 'a' * 10 ** 9 }}{% endif %}ok"
    template = ChatTemplate(source, chatml)
    with pytest.raises(TemplateError):
        template.render([{"role": "user", "content": "x"}])
    assert template.render_text([{"role": "user", "content": "y"}]) == "ok"


def test_long_messages_are_allowed(chatml: Tokenizer) -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.content | trim }}{% endfor %}", chatml)
    text = "word " * 1_000_000 + "end"
    assert template.render_text([{"role": "user", "content": text}]) == text
