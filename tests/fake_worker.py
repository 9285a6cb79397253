"""A worker without an engine: it speaks the protocol and plays scripted parts.

Run it as the worker's command: ``python tests/fake_worker.py [options]``. Options::

    --answer TEXT   what every chat answers (default: an echo of the last message in Markdown)
    --delay S       seconds between two words of an answer and two steps of progress (default 0.01)
    --empty         no model is installed
    --fail-start N  end with exit status N before the first request is read
    --mute          never answer anything
    --pictures      two picture models are installed (see fake_images.py for what prompts direct)
    --no-pictures   an engine that does not draw yet
    --log FILE      append every request line to FILE

The last user message directs a chat: ``/crash`` ends the process in mid-answer, ``/error CODE``
fails with that code, ``/hang`` sends nothing until stopped, ``/garbage`` writes a line that is not
JSON, ``/words N`` answers N words, ``/drop`` reports a dropped message, ``/warn`` sends a warning,
``/think`` answers with a thinking block. Loading or getting what has ``fail`` or ``crash`` in its
name does so.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fake_models
from fake_images import ImageParts, image_models

from engine.worker.protocol import (
    ERROR_CODES,
    VERSION,
    Event,
    ProtocolError,
    Request,
    decode_request,
    encode_event,
    error_event,
)

CONTEXT = 2048


class FakeWorker(ImageParts):
    """The state that requests change: which models are here, which is loaded, who was stopped."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.models = (
            {}
            if options.empty
            else {
                "smollm2-135m-instruct": fake_models.installed("smollm2-135m-instruct", 94),
                "broken": fake_models.installed(
                    "broken", 3, problem="This file is cut short: it ends after 3 MiB of 94."
                ),
            }
        )
        if options.pictures:
            self.models |= image_models()
        self.loaded: str | None = None
        self.loaded_pictures: str | None = None
        self.context = CONTEXT
        self.stops: dict[int, threading.Event] = {}
        self._lock = threading.Lock()

    def send(self, request: Request, event: str, **fields: Any) -> None:
        """Write one event line."""
        self.write(encode_event(Event(request.id, event, fields)))

    def write(self, line: bytes) -> None:
        """Write bytes on stdout as they are."""
        with self._lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def serve(self) -> None:
        """Answer every line of stdin, each on a thread of its own."""
        for line in sys.stdin.buffer:
            if self.options.log:
                with Path(self.options.log).open("ab") as log:
                    log.write(line)
            if self.options.mute:
                continue
            try:
                request = decode_request(line)
            except ProtocolError as error:
                self.write(encode_event(error_event(error.request_id, "usage", str(error))))
                continue
            self.stops[request.id] = threading.Event()
            if request.do in ("stop", "quit"):
                self.answer(request)
                if request.do == "quit":
                    return
            else:
                threading.Thread(target=self.answer, args=(request,), daemon=True).start()

    def answer(self, request: Request) -> None:
        """Play the part of one request."""
        getattr(self, f"do_{request.do}")(request)

    def fail(self, request: Request, code: str, message: str) -> None:
        """End a request in an error."""
        details = "Traceback (most recent call last):\n  (a fake one)"
        self.send(request, "error", code=code, message=message, details=details)

    def wait(self, request: Request, seconds: float) -> bool:
        """Sleep; True if the request was stopped meanwhile."""
        return self.stops[request.id].wait(seconds)

    def steps(self, request: Request, phase: str, total: int, count: int = 5) -> Iterator[int]:
        """Progress in equal steps; ends early when stopped."""
        for step in range(1, count + 1):
            if self.wait(request, self.options.delay):
                return
            done = total * step // count
            self.send(request, "progress", phase=phase, done=done, total=total)
            yield done

    def do_hello(self, request: Request) -> None:
        self.send(request, "done", version=VERSION, engine_version="fake", pid=os.getpid())

    def do_doctor(self, request: Request) -> None:
        self.send(request, "done", report=fake_models.REPORT)

    def do_load(self, request: Request) -> None:
        if self.load(request):
            self.send(
                request,
                "done",
                model=request.fields["model"],
                context=request.fields.get("context", CONTEXT),
                context_max=8192,
                device=fake_models.DEVICE,
                backend="Vulkan",
                memory=fake_models.memory(self.loaded is not None),
            )

    def load(self, request: Request) -> bool:
        """Load the model with progress; False if the request has ended in an error."""
        name = request.fields["model"]
        if self.loaded == name:
            return True
        if "crash" in name:
            os._exit(3)
        if "fail" in name:
            message = "This model needs 6.1 GiB and 4.8 GiB are free. Choose a shorter context."
            self.fail(request, "out_of_memory", message)
            return False
        if name not in self.models and not Path(name).exists():
            self.fail(request, "not_found", f'There is no model "{name}".')
            return False
        problem = self.models.get(name, {}).get("problem")
        if problem:
            self.fail(request, "model_file", problem)
            return False
        for phase in ("reading", "uploading", "compiling"):
            for _ in self.steps(request, phase, 94 * fake_models.MIB, 3):
                continue
        if self.stops[request.id].is_set():
            self.fail(request, "cancelled", "Loading was stopped.")
            return False
        self.loaded = name
        self.context = request.fields.get("context", CONTEXT)
        return True

    def do_unload(self, request: Request) -> None:
        self.loaded = None
        self.send(request, "done")

    def do_chat(self, request: Request) -> None:
        messages = request.fields["messages"]
        prompt = next((m["content"] for m in reversed(messages) if m["role"] == "user"), "")
        self.generate(request, prompt, sum(self.count_words(m) for m in messages))

    def do_complete(self, request: Request) -> None:
        prompt = request.fields["prompt"]
        self.generate(request, prompt, len(prompt.split()))

    def count_words(self, message: Mapping[str, str]) -> int:
        """Tokens of a message, as this worker counts them."""
        return len(message["content"].split()) + 4

    def generate(self, request: Request, prompt: str, prompt_tokens: int) -> None:
        """Play an answer."""
        if not self.load(request):
            return
        directive, _, argument = prompt.partition(" ")
        if directive == "/error":
            code = argument if argument in ERROR_CODES else "internal"
            self.fail(request, code, f"A scripted failure ({code}).")
            return
        began = time.perf_counter()
        dropped = [1] if directive == "/drop" else []
        prompt_ids = [*range(prompt_tokens)]
        self.send(
            request,
            "started",
            prompt_tokens=prompt_tokens,
            prompt_token_ids=prompt_ids,
            reused_tokens=0,
            dropped=dropped,
            dropped_text="The first question and its answer were left out." if dropped else None,
            warning="This model has no chat template." if directive == "/warn" else None,
        )
        self.send(request, "prefill", done=prompt_tokens, total=prompt_tokens)
        self.stream(
            request,
            self.options.answer or fake_models.reply(directive, argument, prompt),
            prompt_ids,
            dropped,
            began,
        )

    def stream(
        self, request: Request, text: str, prompt_ids: list[int], dropped: list[int], began: float
    ) -> None:
        """Send the text word by word, then ``done``."""
        limit = request.fields.get("sampling", {}).get("max_tokens") or 10**9
        words = text.replace(" ", " \0").split("\0")
        sent: list[str] = []
        stop_reason = "end"
        first = 0.0
        directive = fake_models.directive_of(request.fields)
        for word in words:
            if self.wait(request, 3600.0 if directive == "/hang" else self.options.delay):
                stop_reason = "stopped"
                break
            if len(sent) >= limit:
                stop_reason = "length"
                break
            if directive == "/crash" and len(sent) == 3:
                os._exit(3)
            if directive == "/garbage":
                self.write(b"this is no JSON\n")
            first = first or time.perf_counter() - began
            sent.append(word)
            used = len(prompt_ids) + len(sent)
            self.send(request, "text", text=word, token_count=len(sent), context_used=used)
        self.send(
            request,
            "done",
            stop_reason=stop_reason,
            text="".join(sent),
            token_ids=list(range(len(sent))),
            prompt_tokens=len(prompt_ids),
            prompt_token_ids=prompt_ids,
            completion_tokens=len(sent),
            seconds_to_first_token=first,
            prefill_tokens_per_second=1234.5,
            decode_tokens_per_second=67.8,
            context_used=len(prompt_ids) + len(sent),
            context_size=request.fields.get("context", CONTEXT),
            dropped=dropped,
            model=request.fields["model"],
            device=fake_models.DEVICE,
            backend="Vulkan",
        )

    def do_stop(self, request: Request) -> None:
        target = self.stops.get(request.fields["target"])
        if target is not None:
            target.set()
        self.send(request, "done")

    def do_count(self, request: Request) -> None:
        tokens = sum(self.count_words(m) for m in request.fields["messages"])
        self.send(
            request, "done", tokens=tokens, context_size=request.fields.get("context", CONTEXT)
        )

    def do_memory(self, request: Request) -> None:
        self.send(request, "done", memory=fake_models.memory(self.loaded is not None))

    def do_memory_watch(self, request: Request) -> None:
        interval = request.fields.get("interval_ms", 500) / 1000
        while True:
            self.send(request, "memory", memory=fake_models.memory(self.loaded is not None))
            if self.wait(request, interval):
                break
        self.send(request, "done", memory=fake_models.memory(self.loaded is not None))

    def do_models_list(self, request: Request) -> None:
        models = fake_models.listed(self.models.values(), self.loaded, self.context)
        entries = [{**e, "installed": e["name"] in self.models} for e in fake_models.catalogue()]
        self.send(
            request,
            "done",
            models=models,
            catalogue=entries,
            folder="/models",
            free_bytes=100 * 2**30,
        )

    def do_model_get(self, request: Request) -> None:
        name = request.fields["name"]
        entry = next((e for e in fake_models.catalogue() if e["name"] == name), None)
        if "crash" in name:
            os._exit(3)
        if "fail" in name:
            self.fail(request, "network", "The server could not be reached. Check the network.")
        elif entry is None:
            self.fail(request, "not_found", f'The catalogue has no "{name}".')
        else:
            self.transfer(request, "downloading", entry["bytes"])
            if self.stops[request.id].is_set():
                self.fail(request, "cancelled", "The download was stopped; it can be resumed.")
                return
            self.models[name] = fake_models.installed(
                name, entry["bytes"] // fake_models.MIB, quant=entry["quant"]
            )
            self.send(request, "done", model=self.models[name])

    def transfer(self, request: Request, phase: str, total: int) -> None:
        """Progress of a download or a copy in 20 steps; ends early when stopped."""
        for step in range(21):
            self.send(
                request,
                "progress",
                done_bytes=total * step // 20,
                total_bytes=total,
                bytes_per_second=12.5 * fake_models.MIB,
                seconds_left=(20 - step) * self.options.delay,
                phase=phase,
            )
            if self.wait(request, self.options.delay):
                return

    def do_model_forget(self, request: Request) -> None:
        self.send(request, "done", freed_bytes=0)

    def do_model_add(self, request: Request) -> None:
        path = Path(request.fields["path"])
        if "fail" in path.name:
            message = f"{path.name} is not a model: it does not begin with GGUF."
            self.fail(request, "model_file", message)
            return
        self.transfer(request, "copying", 50 * fake_models.MIB)
        self.models[path.stem] = fake_models.installed(path.stem, 50)
        self.send(request, "done", model=self.models[path.stem])

    def do_model_remove(self, request: Request) -> None:
        model = self.models.pop(request.fields["name"], None)
        if model is None:
            self.fail(request, "not_found", f'There is no model "{request.fields["name"]}".')
        else:
            self.send(request, "done", freed_bytes=model["bytes"])

    def do_model_info(self, request: Request) -> None:
        model = self.models.get(request.fields["name"])
        if model is None:
            self.fail(request, "not_found", f'There is no model "{request.fields["name"]}".')
        else:
            self.send(request, "done", info={**model, "tensors": 272, "layers": 30})

    def do_models_move(self, request: Request) -> None:
        self.transfer(request, "copying", 94 * fake_models.MIB)
        self.send(request, "done", folder=request.fields["folder"])

    def do_bench(self, request: Request) -> None:
        report = {"kind": request.fields["kind"], "prefill_tokens_per_second": 1234.5}
        self.send(request, "done", report=report)

    def do_settings(self, request: Request) -> None:
        self.loaded = None
        self.send(request, "done")

    def do_quit(self, request: Request) -> None:
        self.send(request, "done")


def main() -> None:
    """Read the options and serve until stdin closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--answer", default="")
    parser.add_argument("--delay", type=float, default=0.01)
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--fail-start", type=int, default=0)
    parser.add_argument("--mute", action="store_true")
    parser.add_argument("--pictures", action="store_true")
    parser.add_argument("--no-pictures", action="store_true")
    parser.add_argument("--log", default="")
    options = parser.parse_args()
    if options.fail_start:
        print("RuntimeError: a scripted start failure", file=sys.stderr)
        sys.exit(options.fail_start)
    FakeWorker(options).serve()


if __name__ == "__main__":
    main()
