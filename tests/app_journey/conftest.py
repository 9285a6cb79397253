"""A home with tiny real models, and the window's pages over the real worker."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from app_common.qt import close_context, make_context, press, show, wait_until
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app.chat.page import ChatPage, create_page
from app.shell.page import AppContext
from app.storage.records import Message
from engine.formats.gguf import open_gguf, write_gguf
from engine.worker.client import worker_command

GOLDEN = Path(__file__).parents[1] / "golden" / "llama" / "tied-f16.gguf"
PATIENCE_MS = 120_000  # a software GPU compiles for a while
GREEDY = {"temperature": 0.0, "repetition_penalty": 1.0}  # endless: this model never ends by itself
LOOPS = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"


def copy_model(path: Path, **metadata: object) -> Path:
    """The golden model with a context that does not end too soon, and with other metadata."""
    with open_gguf(GOLDEN) as file:
        tensors = {
            name: (file.raw(name) if len(info.shape) > 1 else file.dequantise(name), info.quant)
            for name, info in file.tensors.items()
        }
        known = {k: v for k, v in file.metadata.items() if k != "general.architecture"}
        write_gguf(path, "llama", {**known, "llama.context_length": 2048, **metadata}, tensors)
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with the models tiny, loops (its template never ends) and cut (half a file)."""
    folder = tmp_path_factory.mktemp("home")
    models = folder / "models"
    models.mkdir()
    tiny = copy_model(models / "tiny.gguf")
    copy_model(models / "loops.gguf", **{"tokenizer.chat_template": LOOPS})
    (models / "cut.gguf").write_bytes(tiny.read_bytes()[: tiny.stat().st_size // 2])
    before = os.environ.get("DRIFTWOOD_HOME")
    os.environ["DRIFTWOOD_HOME"] = str(folder)
    yield folder
    if before is None:
        del os.environ["DRIFTWOOD_HOME"]
    else:
        os.environ["DRIFTWOOD_HOME"] = before
    shutil.rmtree(folder, ignore_errors=True)


class Room:
    """The chat page over a real worker, with a few words for what a person does."""

    def __init__(self, context: AppContext) -> None:
        self.context = context
        context.settings.set("chat.sampling", GREEDY)
        context.settings.set("chat.model", "tiny")
        self.told: list[str] = []
        context.messages.told.connect(self._note)
        self.page: ChatPage = create_page(context)
        context.messages.attach(self.page)
        show(self.page)
        context.engine.start()
        self.page.page_shown()
        self.until(lambda: self.page.controller.models.state.known)
        self.page.create_new()

    def _note(self, _kind: str, text: str) -> None:
        self.told.append(text)

    def until(self, condition: Callable[[], object]) -> None:
        """Wait with the patience that a software GPU needs."""
        wait_until(condition, patience=PATIENCE_MS)

    def send(self, text: str) -> None:
        """Type and press Enter."""
        self.page.composer.set_text(text)
        press(self.page.composer.field, Qt.Key.Key_Return)

    def ask(self, text: str, tokens: int = 8) -> Message:
        """Send, and wait for an answer of some tokens."""
        values = {**self.page.controller.values(), "max_tokens": tokens}
        self.page.controller.set_values(values)
        self.send(text)
        self.until(lambda: self.page.controller.generation is None)
        return self.last

    def begin(self, text: str) -> None:
        """Send, and wait for the first words of an answer that has no end."""
        self.page.controller.set_values({**self.page.controller.values(), "max_tokens": 0})
        self.send(text)
        self.until(lambda: self.last.text)

    @property
    def last(self) -> Message:
        """The last message of the branch on show."""
        return self.page.controller.path()[-1]

    def close(self) -> None:
        """The page goes, as when the window is closed."""
        self.context.messages.told.disconnect(self._note)
        self.page.shut_down()


@pytest.fixture(scope="module")
def engine_context(application: QApplication, home: Path) -> Iterator[AppContext]:
    """One engine for all tests: starting it and compiling take longest."""
    made = make_context(home, command=worker_command())
    yield made
    close_context(made)


@pytest.fixture
def room(qt: QApplication, engine_context: AppContext) -> Iterator[Room]:
    made = Room(engine_context)
    yield made
    made.close()


def with_full_disk() -> list[str]:
    """The worker's command on a computer whose disk has a megabyte left."""
    code = (
        "import shutil, collections, sys;"
        "Usage = collections.namedtuple('Usage', 'total used free');"
        "shutil.disk_usage = lambda path: Usage(2**40, 2**40 - 2**20, 2**20);"
        "from engine.worker.main import main; sys.exit(main())"
    )
    return [sys.executable, "-c", code]
