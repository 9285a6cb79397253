from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

JSON_KEYS = {
    "text",
    "token_ids",
    "prompt_token_ids",
    "stop_reason",
    "seconds_to_first_token",
    "prefill_tokens_per_second",
    "decode_tokens_per_second",
    "model",
    "device",
    "backend",
}
Fake = Callable[..., None]
Drive = Callable[..., Any]
posix = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")


@pytest.fixture
def sent(fake: Fake, tmp_path: Path) -> Callable[[str], list[dict[str, Any]]]:
    """The requests of a kind that the worker got."""
    log = tmp_path / "requests.log"
    fake("--log", str(log))

    def read(do: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [one for one in lines if one["do"] == do]

    return read


def test_an_answer_goes_to_stdout_and_nothing_else(drive: Drive) -> None:
    ran = drive("chat", "/words 3")
    assert (ran.status, ran.out) == (0, "word0 word1 word2\n")


def test_json_is_one_object_with_the_documented_keys(drive: Drive) -> None:
    ran = drive("chat", "/words 3", "--json")
    assert ran.status == 0
    assert set(ran.json) == JSON_KEYS
    assert ran.json["text"] == "word0 word1 word2"
    assert ran.json["stop_reason"] == "end"


def test_the_prompt_may_come_through_a_pipe(drive: Drive) -> None:
    assert drive("chat", stdin="/words 2\n").out == "word0 word1\n"
    assert drive("chat", "-", stdin="/words 2").out == "word0 word1\n"


def test_a_prompt_leaves_stdin_alone(drive: Drive) -> None:
    assert drive("chat", "/words 1", stdin="/words 5").out == "word0\n"


def test_an_empty_prompt_is_wrong_usage(drive: Drive) -> None:
    ran = drive("chat", stdin=" \n")
    assert (ran.status, ran.out) == (2, "")
    assert "the prompt is empty" in ran.err


def test_settings_and_system_prompt_reach_the_worker(drive: Drive, sent: Any) -> None:
    drive(
        *("chat", "hi", "--system", "Be brief.", "--temperature", "0", "--top-k", "7"),
        *("--seed", "3", "--max-tokens", "5", "--context", "256"),
        *("--device", "RTX", "--without", "fusion"),
    )
    [chat] = sent("chat")
    assert chat["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]
    assert chat["sampling"] == {"temperature": 0.0, "top_k": 7, "seed": 3, "max_tokens": 5}
    assert chat["context"] == 256
    [settings] = sent("settings")
    assert (settings["device"], settings["without"]) == ("RTX", ["fusion"])


def test_raw_uses_the_prompt_as_it_is(drive: Drive, sent: Any) -> None:
    assert drive("chat", "/words 2", "--raw").status == 0
    assert sent("complete")[0]["prompt"] == "/words 2"
    assert drive("chat", "x", "--raw", "--system", "y").status == 2


def test_the_only_usable_model_is_the_default(drive: Drive, sent: Any) -> None:
    drive("chat", "hi")
    assert sent("chat")[0]["model"] == "smollm2-135m-instruct"


def test_a_chosen_model_is_not_looked_up(drive: Drive, sent: Any) -> None:
    drive("chat", "hi", "--model", "smollm2-135m-instruct")
    assert sent("models_list") == []


def test_with_no_model_the_starter_is_fetched_after_saying_so(drive: Drive, fake: Fake) -> None:
    fake("--empty")
    ran = drive("chat", "/words 1")
    assert (ran.status, ran.out) == (0, "word0\n")
    assert "No model is installed. Getting the starter, SmolLM2 135M Instruct (94 MiB" in ran.err


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("/error network",), 1, "A scripted failure (network)."),
        (("/error setting",), 2, "A scripted failure (setting)."),
        (("hi", "--model", "broken"), 1, "This file is cut short"),
        (("hi", "--model", "fail.gguf"), 1, "Choose a shorter context"),
        (("hi", "--model", "smollm2-1.7b-instruct"), 1, "driftwood models get smollm2-1.7b"),
        (("/crash",), 1, "stopped unexpectedly (exit status 3)"),
        (("/garbage",), 1, "cannot be read"),
    ],
)
def test_failures_are_told_on_stderr(
    drive: Drive, words: tuple[str, ...], status: int, message: str
) -> None:
    ran = drive("chat", *words)
    assert ran.status == status
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_a_failure_is_one_object_too_with_json(drive: Drive) -> None:
    ran = drive("chat", "/error network", "--json")
    assert ran.json == {"error": "A scripted failure (network).", "code": "network"}


def test_details_are_shown_when_asked_for(drive: Drive) -> None:
    assert "(a fake one)" in drive("chat", "/error network", "--verbose").err


def test_warnings_and_dropped_turns_are_told(drive: Drive) -> None:
    assert "no chat template" in drive("chat", "/warn").err
    assert "were left out" in drive("chat", "/drop").err


def test_a_conversation_remembers_what_was_said(drive: Drive, sent: Any) -> None:
    ran = drive("chat", "--system", "Be brief.", typed=["hello", "again", "/exit"])
    assert ran.status == 0
    first, second = sent("chat")
    assert [one["role"] for one in first["messages"]] == ["system", "user"]
    assert [one["role"] for one in second["messages"]] == ["system", "user", "assistant", "user"]
    assert second["messages"][2]["content"].startswith("You said:")
    assert "tokens, 67.8 a second" in ran.err


def test_commands_of_a_conversation(drive: Drive, sent: Any) -> None:
    typed = ["/help", "/regenerate", "one", "/regenerate", "/new", "two", "/system Be kind.", "3"]
    ran = drive("chat", typed=[*typed, "/dance", " /exit is a word", "", "four \\", "lines"])
    assert "/system TEXT" in ran.err
    assert "nothing to answer again" in ran.err
    assert "There is no command /dance" in ran.err
    asked = [[m["content"] for m in one["messages"]] for one in sent("chat")]
    assert asked[:3] == [["one"], ["one"], ["two"]]
    assert asked[3] == ["Be kind.", "3"]
    assert asked[4][-1] == "/exit is a word"
    assert asked[5][-1] == "four \nlines"


def test_a_conversation_survives_a_crash(drive: Drive) -> None:
    ran = drive("chat", typed=["hello", "x", "/exit"])
    assert ran.status == 0
    ran = drive("chat", "--model", "crash", typed=["hello", "hello", "/exit"])
    assert ran.status == 0
    assert ran.err.count("stopped unexpectedly") == 2


def test_a_conversation_and_json_exclude_each_other(drive: Drive) -> None:
    assert drive("chat", "--json", typed=["x"]).status == 2


def test_ctrl_c_at_the_prompt_leaves(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("app.cli.chat._read_line", interrupt)
    assert drive("chat", typed=[]).status == 130


def start(fake: Fake, *words: str) -> subprocess.Popen[str]:
    """The command line as a process of its own, with a slow worker."""
    fake("--delay", "0.02")
    return subprocess.Popen(
        [sys.executable, "-m", "app", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


@posix
def test_ctrl_c_keeps_the_answer_so_far(fake: Fake) -> None:
    process = start(fake, "chat", "/words 1000")
    assert process.stdout is not None
    begun = process.stdout.read(11)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert begun == "word0 word1"
    assert "word999" not in out
    assert out.endswith("\n")
    assert "Traceback" not in err


@posix
def test_ctrl_c_with_json_still_prints_the_object(fake: Fake) -> None:
    process = start(fake, "chat", "/words 1000", "--json")
    time.sleep(1.2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 130
    assert json.loads(out)["stop_reason"] == "stopped"


@posix
def test_a_reader_that_leaves_is_no_error(fake: Fake) -> None:
    process = start(fake, "chat", "/words 1000")
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.wait(10) == 1
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
