"""The log file and the errors that nobody caught; the start of the program as a whole."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from app_common.qt import FAKE_WORKER, wait_signal
from PySide6.QtCore import QLockFile
from PySide6.QtWidgets import QApplication, QWidget

from app.shell import single
from app.shell.logs import ErrorCatcher, start_logging

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clean_logging() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in [h for h in root.handlers if h not in before]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def test_the_log_is_written_and_rotates(
    clean_logging: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.shell.logs.LOG_BYTES", 2000)
    monkeypatch.setattr("app.shell.logs.faulthandler.enable", lambda file: file.close())
    path = tmp_path / "logs" / "driftwood.log"
    assert start_logging(path) == ""
    for number in range(100):
        logging.getLogger("test").info("line %d of many", number)
    assert "line 99" in path.read_text()
    assert path.with_name("driftwood.log.1").exists()


def test_a_log_that_cannot_be_written_is_told(clean_logging: None, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    assert "cannot be written" in start_logging(tmp_path / "logs" / "driftwood.log")


def test_the_same_error_is_told_once(qt: QApplication) -> None:
    catcher = ErrorCatcher()
    told: list[str] = []
    catcher.caught.connect(told.append)
    for _ in range(3):
        try:
            raise ValueError("surprise")
        except ValueError as error:
            catcher._handle(type(error), error, None)
    assert len(told) == 1
    assert "ValueError: surprise" in told[0]


def run_window(home: Path, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the whole program with a script that acts 0.8 s after the window has opened."""
    code = f"""
        import sys
        from PySide6.QtCore import QTimer
        from PySide6.QtWidgets import QApplication
        from app.shell.main import run
        application = QApplication(["driftwood"])
        def act():
            window = next(w for w in application.topLevelWidgets() if w.objectName() == "window")
            context = window.context
            {script}
        QTimer.singleShot(800, act)
        sys.exit(run([]))
    """
    environment = {
        **os.environ,
        "DRIFTWOOD_HOME": str(home),
        "DRIFTWOOD_WORKER_COMMAND": f"{sys.executable} {FAKE_WORKER}",
        "PYTHONPATH": str(ROOT),
        **more,
    }
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_program_opens_and_closes(tmp_path: Path) -> None:
    done = run_window(tmp_path, "window.close()")
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "logs" / "driftwood.log").read_text()
    assert "ERROR" not in log, log
    assert (tmp_path / "config" / "settings.json").exists()
    assert (tmp_path / "data" / "chats.sqlite").exists()


def test_an_error_in_a_slot_is_told_and_the_window_stays(tmp_path: Path) -> None:
    script = (
        "QTimer.singleShot(0, lambda: 1 / 0); "
        "context.messages.told.connect(lambda kind, text: print(kind, text, flush=True)); "
        "QTimer.singleShot(300, window.close)"
    )
    done = run_window(tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert "error Something went wrong that should not have." in done.stdout
    assert "ZeroDivisionError" in (tmp_path / "logs" / "driftwood.log").read_text()


SECOND = """
    import sys
    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QApplication
    from app.shell.main import run
    application = QApplication(["driftwood"])
    QTimer.singleShot(4000, lambda: application.activeModalWidget().accept())
    sys.exit(run([]))
"""


def start_second(home: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "DRIFTWOOD_HOME": str(home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(SECOND)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def test_a_second_window_beside_one_that_is_silent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    lock = QLockFile(str(tmp_path / "data" / "driftwood.lock"))
    assert lock.tryLock(0)
    with start_second(tmp_path) as second:
        told = second.communicate(timeout=60)[1]
    lock.unlock()
    assert second.returncode == 1
    assert "open already" in told


def test_a_second_start_brings_the_open_window_to_the_front(
    qt: QApplication, tmp_path: Path
) -> None:
    path = tmp_path / "data" / "driftwood.lock"
    path.parent.mkdir()
    lock = single.claim(path)
    assert lock is not None
    assert single.claim(path) is None
    window = QWidget()
    window.showMinimized()
    bell = single.Doorbell(single.server_name(path), window)
    bell.rung.connect(lambda: single.bring_to_front(window))
    with start_second(tmp_path) as second:
        wait_signal(bell.rung, patience=60_000)
        told = second.communicate(timeout=60)[1]
    lock.unlock()
    assert (second.returncode, "brought to the front" in told) == (0, True)
    assert not window.isMinimized()


def test_without_a_screen_there_is_a_sentence_and_no_crash(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if "DISPLAY" not in k}
    environment |= {"QT_QPA_PLATFORM": "", "PYTHONPATH": str(ROOT)}
    code = "import sys; from app.shell.main import run; sys.exit(run([]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert sys.platform != "linux" or "no screen" in done.stderr
