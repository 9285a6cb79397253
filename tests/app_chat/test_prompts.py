"""From a branch to a request: what is sent, and what a file may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.chat.attachments import LARGEST, AttachmentError, decode, read_attachment
from app.chat.defaults import GENERAL, request_fields, sampling_for
from app.chat.models import ModelsState, with_loaded
from app.chat.prompts import make_prompt
from app.storage.records import Attachment, Message


def path(*texts: str) -> list[Message]:
    """Alternating messages with ids from 1."""
    roles = ("user", "assistant")
    return [Message(n + 1, 1, n or None, roles[n % 2], text) for n, text in enumerate(texts)]


def sent(*texts: str, system: str = "", continuing: bool = False) -> list[str]:
    """The request as "role: text" lines."""
    prompt = make_prompt(path(*texts), system, continuing=continuing)
    return [f"{m['role']}: {m['content']}" for m in prompt.messages]


def test_roles_alternate() -> None:
    assert sent("q", "a", "q2") == ["user: q", "assistant: a", "user: q2"]
    assert sent("q", "", "q2") == ["user: q\n\nq2"]


def test_the_system_prompt_comes_first() -> None:
    assert sent("q", system=" Be brief. ") == ["system: Be brief.", "user: q"]


def test_thoughts_are_not_repeated_but_continued() -> None:
    assert sent("q", "<think>x</think>a", "q2")[1] == "assistant: a"
    assert sent("q", "<think>x", continuing=True)[1] == "assistant: <think>x"


def test_files_come_before_the_words() -> None:
    message = Message(1, 1, None, "user", "Sum up", attachments=(Attachment("a.txt", "text"),))
    (one,) = make_prompt([message], "").messages
    assert one["content"] == "File a.txt:\n```\ntext\n```\n\nSum up"


def test_dropped_indexes_become_our_ids() -> None:
    prompt = make_prompt(path("q", "", "q2", "a2", "q3"), "system")
    assert prompt.dropped_ids([1, 2]) == (1, 3, 4)
    assert prompt.dropped_ids([0, 99]) == ()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\r\nlines\rhere", "plain\nlines\nhere"),
        ("süß 盐".encode(), "süß 盐"),
        (b"\xef\xbb\xbfwith bom", "with bom"),
        ("utf-16".encode("utf-16"), "utf-16"),
        (b"caf\xe9", "café"),
    ],
)
def test_text_files_are_read(data: bytes, text: str) -> None:
    assert decode("a.txt", data) == text


@pytest.mark.parametrize(("data", "words"), [(b"\x00\x01", "not a text"), (b" \n", "empty")])
def test_other_files_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(AttachmentError, match=words):
        decode("a.bin", data)


def test_files_that_cannot_go_along(tmp_path: Path) -> None:
    big = tmp_path / "big.log"
    big.write_bytes(b"x" * (LARGEST + 1))
    for one, words in ((big, "the most is"), (tmp_path, "folder"), (tmp_path / "no", "cannot be")):
        with pytest.raises(AttachmentError, match=words):
            read_attachment(one)


def test_sampling_layers() -> None:
    qwen = {"name": "qwen3-4b", "family": "qwen3"}
    assert sampling_for(None) == GENERAL
    assert sampling_for(qwen)["top_k"] == 20
    layered = sampling_for(qwen, {"top_k": 5}, {"temperature": 0})
    assert (layered["top_k"], layered["temperature"]) == (5, 0)


@pytest.mark.parametrize("bad", [{"top_k": "many"}, {"nonsense": 1}, {"stop": 3}, {"seed": True}])
def test_a_hand_edited_value_counts_as_unset(bad: dict[str, object]) -> None:
    assert sampling_for(None, bad) == GENERAL


def test_request_fields_leave_out_what_is_unset() -> None:
    fields = request_fields(GENERAL)
    assert not {"seed", "max_tokens", "stop"} & set(fields)
    chosen = {**GENERAL, "seed": 0, "max_tokens": 9, "stop": "END, , ###"}
    fields = request_fields(chosen)
    assert (fields["seed"], fields["max_tokens"], fields["stop"]) == (0, 9, ["END", "###"])


def model(name: str, **more: object) -> dict[str, object]:
    """An installed model."""
    return {"name": name, "kind": "text", "problem": None, "loaded": False, **more}


def test_which_model_is_used() -> None:
    models = (model("a"), model("b", loaded=True), model("c"))
    assert ModelsState(models=models, wanted="c").current == models[2]
    assert ModelsState(models=models, wanted="gone").current == models[1]
    assert ModelsState(models=(models[0],)).current == models[0]
    assert ModelsState().current is None


def test_broken_and_picture_models_are_not_offered() -> None:
    models = (model("broken", problem="cut short"), model("sd", kind="image"))
    state = ModelsState(known=True, models=models)
    assert state.usable == []
    assert state.needs_first_model
    assert not ModelsState(models=models).needs_first_model


def test_only_one_model_is_loaded() -> None:
    models = with_loaded((model("a", loaded=True), model("b")), "b")
    assert [m["loaded"] for m in models] == [False, True]
