"""Which thread does what: the GPU on one, files on one, each download and each watch on its own.

Only the reader calls :meth:`Server.handle`. What must take effect at once (stop, memory, hello) is
answered right there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from engine.models.errors import ModelNotFoundError
from engine.models.store import Store
from engine.worker.backend import EngineSettings, OpenEngine, OpenPictures, open_pictures
from engine.worker.counting import TokenCounter
from engine.worker.engine_room import EngineRoom
from engine.worker.failures import RequestError
from engine.worker.image_answers import ImageAnswers
from engine.worker.image_room import ImageRoom
from engine.worker.job import Job, Send
from engine.worker.model_room import Download, ModelRoom
from engine.worker.protocol import VERSION, Request
from engine.worker.version import engine_version

log = logging.getLogger(__name__)
Handler = Callable[[Job], None]
Task = tuple[Job | None, Handler]
FASTEST_WATCH: Final = 50  # milliseconds
USUAL_WATCH: Final = 500


class Server:
    """Takes requests, answers by events through ``send``, which must be safe for threads."""

    def __init__(
        self,
        send: Send,
        store: Store,
        open_engine: OpenEngine,
        download: Download,
        pictures: OpenPictures = open_pictures,
    ) -> None:
        self._send = send
        self._jobs: dict[int, Job] = {}
        self._jobs_lock = threading.Lock()
        self._counter = TokenCounter()
        self._engine = EngineRoom(store, open_engine, EngineSettings())
        self._images = self._engine.tenant = ImageRoom(store, self._engine, pictures)
        self._answers = ImageAnswers(store)
        self._models = ModelRoom(
            store,
            download,
            lambda: self._engine.loaded,
            lambda: self._images.loaded_path,
            self._release,
            self._free,
        )
        self._engine_queue: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._file_queue: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._at_once: dict[str, Handler] = {
            "hello": self._hello,
            "stop": self._stop,
        }
        self._on_engine: dict[str, Handler] = {
            "doctor": self._engine.doctor,
            "load": lambda job: self._room_of(job).load(job),
            "unload": self._engine.unload,
            "chat": self._engine.chat,
            "complete": self._engine.complete,
            "bench": lambda job: self._room_of(job).bench(job),
            "image": self._images.image,
            "settings": self._engine.change_settings,
        }
        self._on_files: dict[str, Handler] = {
            "models_list": self._models.models_list,
            "model_add": self._models.model_add,
            "model_remove": self._models.model_remove,
            "model_info": self._models.model_info,
            "model_forget": self._models.model_forget,
            "models_move": self._models.models_move,
        }
        self._on_own: dict[str, Handler] = {
            "count": self._count,
            "image_count": self._answers.count,
            "image_info": self._answers.info,
            "image_part": self._answers.part,
            "image_settings": self._answers.settings,
            "memory_watch": self._memory_watch,
            "model_get": self._models.model_get,
        }
        self._threads = [
            self._start("engine", lambda: self._work(self._engine_queue)),
            self._start("files", lambda: self._work(self._file_queue)),
        ]

    def handle(self, request: Request) -> bool:
        """Take one request; False if it was the last one (quit)."""
        job = Job(request, self._send)
        with self._jobs_lock:
            if request.id in self._jobs:
                job.fail(RequestError(f"The id {request.id} is in use."))
                return True
            self._jobs[request.id] = job
        if request.do == "quit":
            job.done()
            return False
        if request.do == "memory":
            self._tell_memory(job)
        elif request.do == "image_fit":
            self._tell_fit(job)
        elif handler := self._at_once.get(request.do):
            self._run(job, handler)
        elif handler := self._on_engine.get(request.do):
            self._engine_queue.put((job, handler))
        elif handler := self._on_files.get(request.do):
            self._file_queue.put((job, handler))
        else:
            own = self._on_own[request.do]
            self._start(request.do, lambda: self._run(job, own))
        return True

    def close(self, patience: float = 3.0) -> bool:
        """Stop everything; True if the GPU was given back in time."""
        with self._jobs_lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.stop()
        self._engine_queue.put(None)
        self._file_queue.put(None)
        for thread in self._threads:
            thread.join(patience)
        if any(thread.is_alive() for thread in self._threads):
            return False
        self._engine.close()
        return True

    def _hello(self, job: Job) -> None:
        job.done(version=VERSION, engine_version=engine_version(), pid=os.getpid())

    def _stop(self, job: Job) -> None:
        with self._jobs_lock:
            target = self._jobs.get(job.request.fields["target"])
        if target is not None:  # one that has ended needs no stopping
            target.stop()
        job.done()

    def _tell_memory(self, job: Job) -> None:
        """At once; on the engine's thread only where the GPU shall be opened for it."""
        if job.request.fields.get("open"):
            self._engine_queue.put((job, self._open_and_tell))
        else:
            self._run(job, self._memory)

    def _tell_fit(self, job: Job) -> None:
        """Beside what is drawn; on the engine's thread only where the GPU must be opened first."""
        if self._images.is_open:
            self._start(job.request.do, lambda: self._run(job, self._images.fit))
        else:
            self._engine_queue.put((job, self._images.fit))

    def _memory(self, job: Job) -> None:
        job.done(memory=self._engine.memory())

    def _open_and_tell(self, job: Job) -> None:
        self._engine.open()
        self._memory(job)

    def _memory_watch(self, job: Job) -> None:
        self._engine_queue.put((None, self._open_quietly))
        interval = max(job.request.fields.get("interval_ms", USUAL_WATCH), FASTEST_WATCH) / 1000
        while True:
            job.send("memory", memory=self._engine.memory())
            if job.wait(interval):
                break
        job.done(memory=self._engine.memory())

    def _count(self, job: Job) -> None:
        asked = job.request.fields
        model = self._models.store.find(asked["model"])
        if model.problem:
            raise RequestError(model.problem)
        tokens = self._counter.count(model.path, asked["messages"])
        job.done(tokens=tokens, context_size=self._engine.context_of(model, asked.get("context")))

    def _open_quietly(self, _: Job) -> None:
        """Open the GPU so that the meter can tell its size; a failure is told by the next load."""
        self._engine.open()

    def _release(self, path: Path) -> None:
        """Free a model whose file is gone, on the engine's thread."""
        self._engine_queue.put((None, lambda _: self._let_go(path)))

    def _let_go(self, path: Path) -> None:
        self._engine.release(path)
        if path == self._images.loaded_path:
            self._images.unload()

    def _room_of(self, job: Job) -> EngineRoom | ImageRoom:
        """Whose a request is: that of pictures, or that of text, whatever its model is."""
        asked = job.request.fields
        if job.request.do == "load":
            model = self._models.store.find(asked["model"])
            return self._images if model.kind == "image" else self._engine
        pictures = job.request.do == "image" or asked.get("kind") == "image"
        return self._images if pictures else self._engine

    def _free(self, path: Path) -> None:
        """Free a model whose file is about to go, on the engine's thread, and wait for it."""
        if path not in (self._engine.loaded_path, self._images.loaded_path):
            return
        freed = threading.Event()

        def release(_: Job) -> None:
            try:
                self._let_go(path)
            finally:
                freed.set()

        self._engine_queue.put((None, release))
        freed.wait()

    def _work(self, tasks: queue.SimpleQueue[Task | None]) -> None:
        while (task := tasks.get()) is not None:
            job, handler = task
            self._run(job or Job(Request(0, handler.__name__), _nowhere), handler)

    def _run(self, job: Job, handler: Handler) -> None:
        """Run one request to its end; whatever it raises ends the request, not the worker."""
        try:
            if job.begin():
                handler(job)
        except Exception as error:
            job.fail(error)
            if job.request.do in self._on_engine:
                self._recover(job, error)
        finally:
            with self._jobs_lock:
                self._jobs.pop(job.request.id, None)

    def _recover(self, job: Job, error: Exception) -> None:
        """Give back what a failure may have broken; a model that was not found broke nothing."""
        with contextlib.suppress(ModelNotFoundError):
            self._room_of(job).recover(error)

    def _start(self, name: str, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread


def _nowhere(event: object) -> None:
    """Events of our own tasks, which nobody asked for."""
