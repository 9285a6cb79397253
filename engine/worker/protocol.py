"""The language of the worker process, version 1: one JSON object a line, in both directions.

The worker is a child process that owns the GPU. It reads **requests** on stdin and writes
**events** on stdout; nothing else ever appears on its stdout. A line is ASCII JSON ended by a
newline, at most :data:`MAX_LINE` bytes. The worker ends when its stdin closes.

Every request is ``{"id": int, "do": str, ...}``; ids are chosen by the client and never reused.
Every event is ``{"id": int, "event": str, ...}`` with the id of its request. Each request ends in
exactly one ``done`` or ``error`` event. A line that cannot be read as a request is answered by an
``error`` event with its id if it has one, else with id 0.

Requests, the events before the last one, and the fields of ``done``:

``hello {}``
    done ``{version, engine_version, pid}``
``doctor {refresh?}``
    done ``{report}``: device, driver, backend, features, limits, self-test, problems
``load {model, context?}``
    ``progress {phase: reading|uploading|compiling|testing, done, total}``;
    done ``{model, context, context_max, device, backend, memory, warnings}``; the contexts of a
    picture model are 0. A text model and a picture model may be loaded together; where both do not
    fit, the other one is unloaded and ``warnings`` says so
``unload {kind?: text|image}``
    done ``{}``
``chat {model, messages, sampling?, context?, continue?}``
    progress as ``load`` if the model has to be loaded, then
    ``started {prompt_tokens, prompt_token_ids, reused_tokens, dropped, dropped_text, warning}``,
    ``prefill {done, total}``, ``text {text, token_count, context_used}`` (``text`` is what is new);
    done ``{stop_reason: end|length|stop|stopped, text, token_ids, prompt_tokens,
    prompt_token_ids, completion_tokens, seconds_to_first_token, prefill_tokens_per_second,
    decode_tokens_per_second, context_used, context_size, dropped, model, device, backend}``.
    ``continue`` goes on with the last message, which must be the assistant's.
``complete {model, prompt, sampling?, context?}``
    as ``chat``, but the prompt is used as it is, without a chat template
``image {model, settings, folder?, output?, preview?, latents?}``
    ``settings`` holds ``prompt`` and, where the model's own shall not do, ``negative, width,
    height, steps, guidance, seed, sampler, count, init, strength, mask, loras: [{path, weight}],
    clip_skip, vae, prediction``; paths are absolute. Pictures go to ``folder`` under names made of
    the prompt and the seed, or to ``output``, a PNG (-2, -3, ... before the suffix for further
    ones); ``latents`` is a .npy file of noise, which also tells size and count where those are left
    out.
    Progress as ``load`` if the model has to be loaded, then
    ``started {seed, count, tokens, token_limit, cut, warnings}``, ``progress``,
    ``step {index, step, total, seconds_left, preview}`` (step of total of picture ``index``, the
    first of those that are made together; ``preview`` is a PNG in base64, null unless asked for),
    ``picture {index, path, seed, width, height}``;
    done ``{files, seed, seconds, seconds_per_step, model, device, backend, peak_bytes, warnings}``
``image_count {model, prompt}``
    done ``{tokens, limit, cut, chunks, note}``
``image_fit {model, settings}``
    done ``{need, more, free, evicts, problem, fits, tiled}``: bytes that such an ``image`` would
    hold, those of them that are not held yet, and what is free for these (null where unknown); the
    name of the chat model that would be unloaded; why it cannot be drawn and a ``[width, height]``
    that could; whether memory is so short that pictures are decoded in parts
``image_part {model, path}``
    done ``{kind: lora|vae, name, hint, problem}``: what a file can be added as; ``hint`` are words
    that a LoRA's maker says to use, ``problem`` says why a LoRA does not go with this model, or ""
``image_info {model}``
    done ``{info}``: family, size, sizes, steps, guidance, sampler, samplers, strength, prompts
    (examples), good_at, not_good_at, token_limit, clip_skip (the most; 0 where it is not used),
    prediction (what the denoiser predicts), prediction_guessed, img2img, inpaint, title,
    description, notes
``image_settings {path}``
    done ``{settings, model, notes}``: what a picture carries, as ``settings`` of ``image``
``stop {target}``
    done ``{}``; the target then ends by itself: chat and complete in ``done`` with stop_reason
    ``stopped`` and the text so far, a watch in ``done``, anything else in ``error`` ``cancelled``;
    pictures that were finished stay
``count {model, messages, context?}``
    done ``{tokens, context_size}``
``memory {open?}`` and ``memory_watch {interval_ms?}``
    done ``{memory}``; the watch sends ``memory {memory}`` until it is stopped. Until the GPU is
    opened the figures are 0 and null; ``open`` opens it first, a watch has it opened meanwhile
``models_list {}``
    done ``{models, catalogue, folder, free_bytes}``: :class:`ModelFields`, :class:`CatalogueFields`
``model_get {name}``  (of the catalogue, or OWNER/REPO/FILE.gguf of the hub)
    ``progress {done_bytes, total_bytes, bytes_per_second, seconds_left, phase}``; done ``{model}``
``model_forget {name}``  (as ``model_get``; stop it first)
    deletes what has come of a download that shall not go on; done ``{freed_bytes}``
``model_add {path, copy?}``
    progress as ``model_get``; done ``{model}``
``model_remove {name}``
    done ``{freed_bytes}``
``model_info {name}``
    done ``{info}``; ``name`` may be a path
``models_move {folder}``
    progress as ``model_get``; done ``{folder}``
``bench {kind, model?, prompt_tokens?, tokens?, context?, width?, height?, steps?}``
    ``progress``; done ``{report}``; kind is text, image, kernels or quality; the context
    is as long as the measured tokens need unless it is given; the model of image may also be sd15
    or sdxl: random weights of those shapes
``settings {backend?, device?, without?}``
    done ``{}``; unloads the model, takes effect at the next load
``quit {}``
    done ``{}``, then the process ends
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast, get_args

from engine.worker.protocol_types import CatalogueFields as CatalogueFields
from engine.worker.protocol_types import MemoryFigures as MemoryFigures
from engine.worker.protocol_types import Message as Message
from engine.worker.protocol_types import ModelFields as ModelFields

VERSION: Final = 1
MAX_LINE: Final = 32 * 2**20  # bytes; a longer line is a fault, not a message

ErrorCode = Literal[
    "usage",  # the request itself is wrong
    "no_adapter",  # no usable GPU
    "device_lost",
    "out_of_memory",
    "shader",
    "model_file",  # broken, cut short or not a model at all
    "unsupported_model",
    "template",
    "setting",
    "context_full",
    "picture_file",  # a picture that cannot be read or written, or carries no settings
    "not_found",
    "download",
    "disk_full",
    "network",
    "cancelled",
    "internal",  # a fault of ours; the client uses it too when the worker has died
]
TECHNIQUES: Final = ("f16", "subgroups", "matrix", "dp4a", "fusion", "planner", "tuning")
"""What ``settings`` can switch off by ``without``."""
SAMPLERS: Final = (
    "ddim",
    "euler",
    "euler_a",
    "heun",
    "dpmpp_2m",
    "dpmpp_2m_karras",
    "dpmpp_sde",
    "unipc",
    "lcm",
)
"""The samplers of pictures, without importing the room that has them."""
PREDICTIONS: Final = ("epsilon", "v_prediction", "sample")
"""What a denoiser may predict, likewise."""
ERROR_CODES: Final = frozenset(cast(tuple[str, ...], get_args(ErrorCode)))


class ProtocolError(Exception):
    """A line that is not a valid message; ``request_id`` is its id, or 0 if it has none."""

    def __init__(self, message: str, request_id: int = 0) -> None:
        super().__init__(message)
        self.request_id = request_id


@dataclass(frozen=True)
class Request:
    """What the client asks for; ``fields`` are everything but id and do."""

    id: int
    do: str
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Event:
    """What the worker answers; ``fields`` are everything but id and event."""

    id: int
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def final(self) -> bool:
        """True if no further event of this request follows."""
        return self.event in ("done", "error")

    def __getitem__(self, key: str) -> Any:
        return self.fields[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The field ``key``, or ``default``."""
        return self.fields.get(key, default)


@dataclass(frozen=True)
class _Field:
    """What a request's field may hold."""

    types: tuple[type, ...]
    required: bool = False


_TEXT, _COUNT, _FLAG = _Field((str,)), _Field((int,)), _Field((bool,))
_OBJECT, _LIST = _Field((dict,)), _Field((list,))
_NEED_TEXT, _NEED_COUNT, _NEED_LIST, _NEED_OBJECT = (
    _Field((one,), required=True) for one in (str, int, list, dict)
)

REQUESTS: Final[Mapping[str, Mapping[str, _Field]]] = {
    "hello": {},
    "doctor": {"refresh": _FLAG},
    "load": {"model": _NEED_TEXT, "context": _COUNT},
    "unload": {"kind": _TEXT},
    "chat": {
        "model": _NEED_TEXT,
        "messages": _NEED_LIST,
        "sampling": _OBJECT,
        "context": _COUNT,
        "continue": _FLAG,
    },
    "complete": {
        "model": _NEED_TEXT,
        "prompt": _NEED_TEXT,
        "sampling": _OBJECT,
        "context": _COUNT,
    },
    "image": {
        "model": _NEED_TEXT,
        "settings": _NEED_OBJECT,
        "folder": _TEXT,
        "output": _TEXT,
        "preview": _FLAG,
        "latents": _TEXT,
    },
    "image_count": {"model": _NEED_TEXT, "prompt": _NEED_TEXT},
    "image_fit": {"model": _NEED_TEXT, "settings": _NEED_OBJECT},
    "image_part": {"model": _NEED_TEXT, "path": _NEED_TEXT},
    "image_info": {"model": _NEED_TEXT},
    "image_settings": {"path": _NEED_TEXT},
    "stop": {"target": _NEED_COUNT},
    "count": {"model": _NEED_TEXT, "messages": _NEED_LIST, "context": _COUNT},
    "memory": {"open": _FLAG},
    "memory_watch": {"interval_ms": _COUNT},
    "models_list": {},
    "model_get": {"name": _NEED_TEXT},
    "model_forget": {"name": _NEED_TEXT},
    "model_add": {"path": _NEED_TEXT, "copy": _FLAG},
    "model_remove": {"name": _NEED_TEXT},
    "model_info": {"name": _NEED_TEXT},
    "models_move": {"folder": _NEED_TEXT},
    "bench": {
        "kind": _NEED_TEXT,
        "model": _TEXT,
        "prompt_tokens": _COUNT,
        "tokens": _COUNT,
        "context": _COUNT,
        "width": _COUNT,
        "height": _COUNT,
        "steps": _COUNT,
    },
    "settings": {"backend": _TEXT, "device": _TEXT, "without": _LIST},
    "quit": {},
}
_ROLES: Final = ("system", "user", "assistant")
_JSON_NAMES: Final = {str: "text", int: "a whole number", bool: "true or false", dict: "an object"}


def encode_request(request: Request) -> bytes:
    """One line for the worker's stdin. Raises ProtocolError if the request is not valid."""
    check_request(request)
    return _line({"id": request.id, "do": request.do, **_without_nulls(request.fields)})


def encode_event(event: Event) -> bytes:
    """One line for the worker's stdout."""
    return _line({"id": event.id, "event": event.event, **event.fields})


def decode_request(line: bytes) -> Request:
    """Read and check one line of the worker's stdin. Raises ProtocolError."""
    message = _object(line)
    request_id = _id(message)
    do = message.pop("do", None)
    if not isinstance(do, str):
        raise ProtocolError('A request needs "do", the name of what to do.', request_id)
    request = Request(request_id, do, _without_nulls(message))
    check_request(request)
    return request


def decode_event(line: bytes) -> Event:
    """Read one line of the worker's stdout. Raises ProtocolError."""
    message = _object(line)
    event_id = _id(message)
    name = message.pop("event", None)
    if not isinstance(name, str):
        raise ProtocolError('An event of the worker has no "event".', event_id)
    return Event(event_id, name, message)


def check_request(request: Request) -> None:
    """Raise ProtocolError unless every field is known, of its type, and none is missing."""
    spec = REQUESTS.get(request.do)
    if spec is None:
        raise ProtocolError(f'There is no request "{request.do}".', request.id)
    for name, value in request.fields.items():
        if name not in spec:
            raise ProtocolError(f'"{request.do}" takes no field "{name}".', request.id)
        if value is not None and not _is_a(value, spec[name].types):
            wanted = " or ".join(_JSON_NAMES.get(t, "a list") for t in spec[name].types)
            raise ProtocolError(f'"{name}" of "{request.do}" must be {wanted}.', request.id)
    for name, one in spec.items():
        if one.required and request.fields.get(name) is None:
            raise ProtocolError(f'"{request.do}" needs the field "{name}".', request.id)
    if "messages" in request.fields:
        _check_messages(request)


def _check_messages(request: Request) -> None:
    messages: list[Any] = request.fields["messages"]
    if not messages and request.do == "chat":
        raise ProtocolError("A chat needs at least one message.", request.id)
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or set(cast(dict[str, Any], message)) < {
            "role",
            "content",
        }:
            raise ProtocolError(f"Message {number} needs a role and a content.", request.id)
        role, content = cast(object, message["role"]), cast(object, message["content"])
        if role not in _ROLES:
            raise ProtocolError(f"Message {number} has an unknown role: {role}.", request.id)
        if not isinstance(content, str):
            raise ProtocolError(f"The content of message {number} must be text.", request.id)
    if request.fields.get("continue") and messages[-1]["role"] != "assistant":
        raise ProtocolError("Only an answer of the assistant can be continued.", request.id)


def error_event(
    request_id: int, code: ErrorCode, message: str, details: str | None = None
) -> Event:
    """The last event of a request that failed."""
    return Event(request_id, "error", {"code": code, "message": message, "details": details})


def _is_a(value: object, types: tuple[type, ...]) -> bool:
    if isinstance(value, bool):  # a bool is an int in Python, but not in JSON
        return bool in types
    return isinstance(value, types)


def _without_nulls(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A null means that the field was left out."""
    return {name: value for name, value in fields.items() if value is not None}


def _line(message: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise ProtocolError(f"A message holds a number that JSON cannot carry: {error}.") from error
    return text.encode("ascii") + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    try:
        message: object = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"This line is not JSON: {line[:80]!r} ({error}).") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"This line is not a JSON object: {line[:80]!r}.")
    return cast(dict[str, Any], _mended(cast(object, message)))


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _id(message: dict[str, Any]) -> int:
    value = message.pop("id", None)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProtocolError('A message needs "id", a whole number.')
    return value


def _mended(value: object) -> object:
    """Replace halves of surrogate pairs, which JSON can carry and UTF-8 cannot."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in cast(list[object], value)]
    if isinstance(value, dict):
        return {key: _mended(item) for key, item in cast(dict[str, object], value).items()}
    return value
