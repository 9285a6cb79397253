from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import app.main
from app.cli.arguments import UsageError, parse_window

Fake = Callable[..., None]
Drive = Callable[..., Any]
ROOT = Path(__file__).parents[2]


def test_the_list_tells_what_is_here_and_what_can_be_had(drive: Drive) -> None:
    ran = drive("models", "list")
    assert ran.status == 0
    assert "smollm2-135m-instruct  text   94 MiB  Q4_1" in ran.out
    assert "broken: This file is cut short" in ran.out
    assert "driftwood models get" in ran.out
    assert "Folder: /models (100.0 GiB free" in ran.out
    assert len(drive("models", "list", "--json").json["catalogue"]) == 3


def test_an_empty_list_says_so(drive: Drive, fake: Fake) -> None:
    fake("--empty")
    assert "No model is installed." in drive("models", "list").out


def test_a_model_is_downloaded(drive: Drive) -> None:
    ran = drive("models", "get", "smollm2-1.7b-instruct", "--json")
    assert ran.status == 0
    assert ran.json["name"] == "smollm2-1.7b-instruct"
    assert "is ready: 1,007 MiB" in ran.err or "is ready: 1.0 GiB" in ran.err


def test_a_download_that_fails_is_told(drive: Drive) -> None:
    ran = drive("models", "get", "fail")
    assert (ran.status, ran.out) == (1, "")
    assert "Check the network" in ran.err


def test_a_file_is_added_by_its_absolute_path(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "mine is ready" in drive("models", "add", "mine.gguf").err
    assert drive("models", "add", "fail.gguf").status == 1


def test_a_model_is_removed(drive: Drive) -> None:
    ran = drive("models", "remove", "smollm2-135m-instruct")
    assert ran.status == 0
    assert "that frees 94 MiB" in ran.err
    assert drive("models", "remove", "nothing").status == 1


def test_path_and_info(drive: Drive) -> None:
    assert drive("models", "path").out == "/models\n"
    assert drive("models", "path", "--json").json == {"folder": "/models"}
    assert "layers: 30" in drive("models", "info", "smollm2-135m-instruct").out
    assert drive("models", "info", "smollm2-135m-instruct", "--json").json["tensors"] == 272


def test_memory_is_told_in_its_parts(drive: Drive) -> None:
    ran = drive("memory")
    assert ran.out.startswith("Driftwood 1 MiB (weights 0 MiB, KV cache 0 MiB")
    assert "other programs 1.3 GiB; Fake GPU has 8.0 GiB" in ran.out
    assert drive("memory", "--json").json["device_name"] == "Fake GPU"


def test_the_doctor_reports(drive: Drive) -> None:
    assert "device: Fake GPU" in drive("doctor").out
    assert drive("doctor", "--json").json["problems"] == []


def test_a_bench_reports(drive: Drive) -> None:
    assert "prefill tokens per second: 1,234" in drive("bench", "text").out
    assert drive("bench", "kernels", "--json").json["kind"] == "kernels"


def test_the_version_is_told(drive: Drive) -> None:
    ran = drive("--version")
    assert ran.status == 0
    assert ran.out.startswith("driftwood ")


@pytest.mark.parametrize("words", [("dance",), ("chat", "--top-p", "7"), ("models", "get")])
def test_wrong_usage_is_2(drive: Drive, words: tuple[str, ...]) -> None:
    ran = drive(*words)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("driftwood: ")


def test_a_worker_that_cannot_start_is_told(drive: Drive, fake: Fake) -> None:
    fake("--fail-start", "4")
    ran = drive("doctor")
    assert ran.status == 1
    assert "exit status 4" in ran.err


@pytest.mark.parametrize(
    "words", [[], ["--verbose"], ["--backend", "dawn", "--without=f16"], ["--device=RTX"]]
)
def test_no_command_opens_the_window(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    opened: list[list[str]] = []
    window = type("Window", (), {"run": staticmethod(lambda words: opened.append(words) or 0)})
    monkeypatch.setitem(sys.modules, "app.shell.main", window)
    assert app.main.main(words) == 0
    assert opened == [words]


def test_the_window_takes_the_options_of_the_engine() -> None:
    options = parse_window(["--backend", "dawn", "--without", "f16,dp4a"])
    assert (options.backend, options.device, options.without) == ("dawn", None, ["f16", "dp4a"])
    with pytest.raises(UsageError, match="no technique"):
        parse_window(["--without", "magic"])


def test_the_command_line_starts_without_window_gpu_or_hub() -> None:
    program = (
        "import sys, app.main; app.main.main(['--version'])\n"
        "import app.cli.chat, app.cli.models, app.cli.reports\n"
        "heavy = {'PySide6', 'wgpu', 'huggingface_hub', 'numpy', 'requests'}\n"
        "print(sorted(heavy & {*sys.modules}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("words", ["memory --watch", "models get smollm2-1.7b-instruct"])
def test_ctrl_c_ends_with_130(fake: Fake, words: str) -> None:
    fake("--delay", "0.2")
    process = subprocess.Popen(
        [sys.executable, "-m", "app", *words.split()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "Traceback" not in err
