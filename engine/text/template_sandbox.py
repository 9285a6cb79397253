"""A place to run chat templates that nobody has to trust.

A template is a program from a downloaded file. It runs in Jinja's immutable sandbox, set up as
model authors expect (the way ``transformers`` does), within limits on time and size that it cannot
get around:

* every turn of a loop, every call and every filter looks at a clock;
* whatever can make a value grow (``+ * ** % ~``, captured blocks, filters, methods, literals) is
  measured, before it is made where one step could be huge. A container weighs as much as it would
  print, so sharing one list a million times inside another does not hide it;
* filters and methods are the ones on a list, not whatever Python offers.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import jinja2
from jinja2 import filters as stock
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

SOURCE_LIMIT = 128 * 1024  # characters; the longest template in use has about 30,000
SIZE_LIMIT = 4_000_000  # characters of one value, on top of what the messages have
SECONDS = 1.0  # of processor time; an ordinary template takes a few thousandths
_TOTAL = 64  # times the size limit: what all steps together may make
_INTEGER_BITS = 4096
_ITEM_WEIGHT = 64  # characters that an item of a container counts as, besides its own


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PLAIN_FILTERS = _names(
    "abs capitalize count d default dictsort e escape first float int items last length list lower"
    " map max min reject rejectattr reverse round safe select selectattr sort string title trim"
    " unique upper wordcount"
)
_TEXT_METHODS = _names(
    "strip lstrip rstrip split rsplit splitlines partition rpartition startswith endswith"
    " removeprefix removesuffix upper lower title capitalize casefold swapcase replace find rfind"
    " index rindex count join isdigit isalpha isalnum isspace isupper islower isnumeric"
)
_MAPPING_METHODS = frozenset({"get", "items", "keys", "values"})
_LIST_METHODS = frozenset({"index", "count"})


class RefusalError(Exception):
    """The template called ``raise_exception``; the text is its own."""


class LimitError(Exception):
    """The template ran too long or made too much; the text says which."""


class Budget:
    """What one rendering may still use."""

    def __init__(self, size: int, seconds: float) -> None:
        self.size = size
        self._left = size * _TOTAL
        self._ends = time.thread_time() + seconds
        self._seconds = seconds
        self._until_check = 0

    def tick(self) -> None:
        """Count a step; look at the clock now and then."""
        self._until_check -= 1
        if self._until_check <= 0:
            self._until_check = 50
            if time.thread_time() > self._ends:
                raise LimitError(f"takes longer than {self._seconds:g} s")

    def allow(self, size: int) -> None:
        """Refuse a value of ``size`` characters that is about to be made."""
        if size > self.size:
            raise LimitError(f"makes values of more than {self.size:,} characters")

    def spend(self, value: Any) -> Any:
        """Measure a value that was made, and hand it back."""
        self.tick()
        weight = self._weigh(value)
        self.allow(weight)
        self._left -= weight
        if self._left < 0:
            raise LimitError("makes far more text than its messages have")
        return value

    def _weigh(self, value: Any) -> int:
        """About how many characters ``value`` prints."""
        if isinstance(value, str):
            return len(value)
        weight = 0
        pending: list[Any] = [value]
        while pending:
            self.tick()
            item = pending.pop()
            weight += _ITEM_WEIGHT
            if isinstance(item, str):
                weight += len(item)
            elif isinstance(item, (list, tuple)):
                pending.extend(cast("Iterable[Any]", item))
            elif isinstance(item, dict):
                table = cast("dict[Any, Any]", item)
                pending.extend(table.keys())
                pending.extend(table.values())
            self.allow(weight + len(pending))
        return weight


class GenerationTag(Extension):
    """``{% generation %}`` marks answers for training; here its body is simply rendered."""

    tags = {"generation"}  # noqa: RUF012 (Jinja declares it as a plain set)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class GuardedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja, bounded by the :class:`Budget` that is in :attr:`budget` while a template runs."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            extensions=[GenerationTag, loopcontrols],
        )
        self.budget = Budget(SIZE_LIMIT, SECONDS)
        stocked = cast("dict[str, Callable[..., Any]]", vars(stock)["FILTERS"])
        allowed = {name: _measured(stocked[name]) for name in _PLAIN_FILTERS}
        own: dict[str, Callable[..., Any]] = {
            "tojson": _tojson,
            "join": _join,
            "replace": _replace,
            "indent": _indent,
            "_tick": _tick,
            "_spend": _spend,
            "_concat": _concat,
        }
        self.filters = allowed | {name: _measured(function) for name, function in own.items()}
        given = cast("dict[str, Any]", self.globals)
        kept = {name: given[name] for name in ("range", "dict", "namespace", "cycler", "joiner")}
        self.globals = kept | {
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }

    def compile_source(self, source: str) -> jinja2.Template:
        """A template with checks built into it."""
        if len(source) > SOURCE_LIMIT:
            raise LimitError(f"is longer than {SOURCE_LIMIT:,} characters")
        self.budget = Budget(SIZE_LIMIT, SECONDS)
        tree = _AddChecks().visit(self.parse(source))
        code = self.compile(tree)
        return jinja2.Template.from_code(self, code, self.make_globals(None))

    def concat(self, parts: Iterable[str]) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Join what a template, a macro or a captured block has put out, but not too much."""
        budget, kept, size = self.budget, list[str](), 0
        for part in parts:
            size += len(part)
            budget.allow(size)
            kept.append(part)
        return budget.spend("".join(kept))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        check = {"+": _check_sum, "*": _check_product, "**": _check_power, "%": _check_format}
        check[operator](self.budget, left, right)
        return self.budget.spend(super().call_binop(context, operator, left, right))

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.budget.tick()
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, str) and name == "replace" and len(args) >= 2:
            return _replace(self, owner, *args)
        if isinstance(owner, str) and name == "join" and len(args) == 1:
            return _join_parts(self.budget, args[0], owner)
        return self.budget.spend(super().call(context, obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """No ``str.format``: one width in it can ask for gigabytes."""
        return None

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in _TEXT_METHODS
        if isinstance(obj, Mapping):
            return attr in _MAPPING_METHODS
        if isinstance(obj, (list, tuple)):
            return attr in _LIST_METHODS
        if isinstance(obj, (int, float, bytes, type)):
            return False
        return super().is_safe_attribute(obj, attr, value)


class _AddChecks(NodeTransformer):
    """Puts a check into every loop and macro, and around what makes values grow."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _tick_statement(node.lineno))
        if node.test is not None:
            line = node.lineno
            ticked = _filter(nodes.Const(True, lineno=line), "_tick", line)
            node.test = nodes.And(ticked, node.test, lineno=line)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _tick_statement(node.lineno))
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _tick_statement(node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes, lineno=node.lineno), "_concat", node.lineno)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _filter(node, "_spend", node.lineno)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return _filter(node, "_spend", node.lineno)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return _filter(node, "_spend", node.lineno) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        sliced = isinstance(node.arg, nodes.Slice)
        return _filter(node, "_spend", node.lineno) if sliced else node


def _filter(node: nodes.Expr, name: str, line: int) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=line)


def _tick_statement(line: int) -> nodes.Node:
    return nodes.ExprStmt(_filter(nodes.Const(None, lineno=line), "_tick", line), lineno=line)


def _measured(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose result is measured; wanting the context, it never runs at compile time."""
    wants = getattr(function, "jinja_pass_arg", None)  # an enum of Jinja's, or None

    @jinja2.pass_context
    @functools.wraps(function)
    def run(context: Context, *args: Any, **kwargs: Any) -> Any:
        environment = cast("GuardedEnvironment", context.environment)
        environment.budget.tick()
        given = {None: (), "context": (context,), "eval_context": (context.eval_ctx,)}
        first = given.get(wants and wants.name, (environment,))
        return environment.budget.spend(function(*first, *args, **kwargs))

    return run


@jinja2.pass_environment
def _tick(environment: GuardedEnvironment, value: Any) -> Any:
    return value  # `_measured` has ticked


@jinja2.pass_environment
def _spend(environment: GuardedEnvironment, value: Any) -> Any:
    return value  # `_measured` measures it


@jinja2.pass_environment
def _concat(environment: GuardedEnvironment, parts: Iterable[Any]) -> str:
    return _join_parts(environment.budget, parts, "")


@jinja2.pass_context
def _join(context: Context, value: Iterable[Any], d: str = "", attribute: Any = None) -> str:
    if attribute is not None:
        value = stock.do_map(context, value, attribute=attribute)
    return _join_parts(cast("GuardedEnvironment", context.environment).budget, value, str(d))


def _join_parts(budget: Budget, parts: Iterable[Any], between: str) -> str:
    texts: list[str] = []
    size = 0
    for part in parts:
        budget.tick()
        text = str(part)
        size += len(text) + len(between)
        budget.allow(size)
        texts.append(text)
    return budget.spend(between.join(texts))


@jinja2.pass_environment
def _replace(
    environment: GuardedEnvironment, value: Any, old: Any, new: Any, count: int | None = None
) -> str:
    text, old, new = str(value), str(old), str(new)
    places = text.count(old) if count is None or count < 0 else min(text.count(old), count)
    environment.budget.allow(len(text) + places * len(new))
    return environment.budget.spend(text.replace(old, new, -1 if count is None else count))


@jinja2.pass_environment
def _indent(
    environment: GuardedEnvironment,
    value: Any,
    width: int | str = 4,
    first: bool = False,
    blank: bool = False,
) -> str:
    text = str(value)
    step = len(width) if isinstance(width, str) else int(width)
    environment.budget.allow(step)
    environment.budget.allow(len(text) + step * (text.count("\n") + 2))
    return stock.do_indent(text, width, first, blank)


@jinja2.pass_environment
def _tojson(
    environment: GuardedEnvironment,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as ``transformers`` writes it for templates: no HTML escapes."""
    if indent is not None and not 0 <= int(indent) <= 16:
        raise LimitError("indents JSON by more than 16")
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: object = "") -> None:
    raise RefusalError(str(message))


def _strftime_now(form: str) -> str:
    if len(form) > 200:
        raise LimitError("asks for a date of more than 200 characters")
    return datetime.datetime.now().strftime(form)


def _check_sum(budget: Budget, left: Any, right: Any) -> None:
    if isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
        budget.allow(len(cast("str", left)) + len(cast("str", right)))


def _check_product(budget: Budget, left: Any, right: Any) -> None:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, (str, list, tuple, bytes)) and isinstance(other, int):
            budget.allow(len(cast("str", one)) * other)
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())


def _check_power(budget: Budget, left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        _check_bits(left.bit_length() * right)


def _check_bits(bits: int) -> None:
    if bits > _INTEGER_BITS:
        raise LimitError(f"computes a number of more than {_INTEGER_BITS:,} bits")


def _check_format(budget: Budget, left: Any, right: Any) -> None:
    if not isinstance(left, str):
        return
    if re.search(r"%[^a-zA-Z%]*(?:\*|\d{4})", left):
        raise LimitError("formats a text with a width of 1,000 or more")
    budget.allow(len(left) + left.count("%") * 1000)
