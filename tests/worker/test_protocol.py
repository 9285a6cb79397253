from __future__ import annotations

import json
from typing import Any

import pytest

from engine.gpu.capabilities import SWITCHES
from engine.worker.protocol import (
    ERROR_CODES,
    TECHNIQUES,
    Event,
    ProtocolError,
    Request,
    decode_event,
    decode_request,
    encode_event,
    encode_request,
    error_event,
)

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def line(**message: Any) -> bytes:
    return json.dumps(message).encode()


def test_a_request_survives_the_way() -> None:
    request = Request(7, "chat", {**CHAT, "sampling": {"temperature": 0.5}, "continue": False})
    assert decode_request(encode_request(request)) == request


def test_an_event_survives_the_way() -> None:
    event = Event(7, "text", {"text": "naïve 🌊\n", "token_count": 3})
    sent = encode_event(event)
    assert decode_event(sent) == event
    assert sent.isascii()
    assert sent.count(b"\n") == 1


@pytest.mark.parametrize(("name", "final"), [("text", False), ("done", True), ("error", True)])
def test_only_done_and_error_are_final(name: str, final: bool) -> None:
    assert Event(1, name).final is final


def test_an_error_carries_code_message_and_details() -> None:
    event = error_event(3, "network", "No network.", "traceback")
    assert event.fields == {"code": "network", "message": "No network.", "details": "traceback"}
    assert "network" in ERROR_CODES


def test_a_null_is_a_field_left_out() -> None:
    assert decode_request(line(id=1, do="load", model="m", context=None)).fields == {"model": "m"}
    assert b"context" not in encode_request(Request(1, "load", {"model": "m", "context": None}))


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"hello", "is not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"id": 1, "do": "load", "model": NaN}', "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (line(do="hello"), 'needs "id"'),
        (line(id="1", do="hello"), 'needs "id"'),
        (line(id=True, do="hello"), 'needs "id"'),
        (line(id=1), 'needs "do"'),
        (line(id=1, do="dance"), 'no request "dance"'),
        (line(id=1, do="hello", extra=1), 'no field "extra"'),
        (line(id=1, do="load"), 'needs the field "model"'),
        (line(id=1, do="load", model=5), '"model" of "load" must be text'),
        (line(id=1, do="load", model="m", context=True), "must be a whole number"),
        (line(id=1, do="load", model="m", context=1.5), "must be a whole number"),
        (line(id=1, do="chat", model="m", messages=[]), "at least one message"),
        (line(id=1, do="chat", model="m", messages=["hi"]), "needs a role and a content"),
        (line(id=1, do="chat", model="m", messages=[{"role": "user"}]), "needs a role"),
        (line(id=1, do="chat", model="m", messages=[{"role": "x", "content": ""}]), "unknown role"),
        (
            line(id=1, do="chat", model="m", messages=[{"role": "user", "content": 1}]),
            "must be text",
        ),
        (line(id=1, do="chat", **CHAT, **{"continue": True}), "of the assistant can be continued"),
    ],
)
def test_what_is_no_request_is_told(message: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        decode_request(message)


def test_the_id_of_a_bad_request_is_kept_for_the_answer() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_request(line(id=9, do="dance"))
    assert caught.value.request_id == 9


def test_half_a_surrogate_pair_becomes_a_replacement_mark() -> None:
    sent = b'{"id": 1, "do": "load", "model": "a\\ud83db \\ud83c\\udf0a"}'
    assert decode_request(sent).fields["model"] == "a\ufffdb 🌊"


def test_numbers_that_json_lacks_are_refused_at_the_sender() -> None:
    with pytest.raises(ProtocolError, match="cannot carry"):
        encode_event(Event(1, "done", {"rate": float("nan")}))


def test_every_technique_of_the_engine_can_be_switched_off() -> None:
    assert set(TECHNIQUES) == SWITCHES - {"limits"}  # small limits are for tests only
