"""``driftwood chat``: one answer, or a conversation."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from collections.abc import Mapping
from typing import Any, Final

from app.cli.arguments import UsageError
from app.cli.console import print_json, printable, say
from app.cli.session import Interrupted, Outcome, Session, stdin_is_terminal
from engine.worker.client import WorkerError
from engine.worker.protocol import Event, Message

INTERRUPTED: Final = 130
HELP: Final = """\
/new            forget the conversation and start another
/system TEXT    tell the model something before the conversation (also starts another)
/regenerate     answer the last message again
/exit           leave (Ctrl-D does too)
Ctrl-C stops an answer and keeps what was said. A line that ends in \\ goes on in the next one."""
_JSON_KEYS: Final = (
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
)


def run_chat(options: argparse.Namespace) -> int:
    """Run the command; the exit status. Raises UsageError, WorkerError, Interrupted."""
    if options.raw and options.system:
        raise UsageError("--raw uses the prompt as it is, so --system has no place in it")
    prompt = _prompt(options)
    with Session(options) as session:
        model = session.choose_model(options.model)
        if prompt is None:
            return Conversation(session, options, model).run()
        outcome = ask(session, options, model, _messages(options.system, prompt))
        if options.json:
            print_json({key: outcome.fields.get(key) for key in _JSON_KEYS})
        return INTERRUPTED if outcome.interrupted else 0


def ask(
    session: Session, options: argparse.Namespace, model: str, messages: list[Message]
) -> Outcome:
    """One answer, streamed to stdout unless ``--json`` is given."""
    request: dict[str, Any] = {
        "model": model,
        "sampling": sampling(options),
        "context": options.context,
    }
    if options.raw:
        do, request["prompt"] = "complete", messages[-1]["content"]
    else:
        do, request["messages"] = "chat", messages
    answer = _Answer(streamed=not options.json)
    handlers = {"started": _tell_start, "text": answer.write}
    try:
        outcome = session.run(do, handlers, **request)
    finally:
        answer.end()
    if session.verbose:
        say(speed_text(outcome.fields))
    return outcome


def sampling(options: argparse.Namespace) -> dict[str, Any]:
    """The sampler's settings that were given."""
    names = ("temperature", "top_k", "top_p", "min_p", "seed", "max_tokens")
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def speed_text(done: Mapping[str, Any]) -> str:
    """How fast an answer was."""
    return (
        f"[{done['completion_tokens']:,} tokens, {done['decode_tokens_per_second']:,.1f} a second; "
        f"first after {done['seconds_to_first_token']:.2f} s; "
        f"context {done['context_used']:,} of {done['context_size']:,}]"
    )


class Conversation:
    """Prompts and answers until the person leaves."""

    def __init__(self, session: Session, options: argparse.Namespace, model: str) -> None:
        self._session, self._options, self._model = session, options, model
        self._messages = _messages(options.system, None)

    def run(self) -> int:
        """Read and answer; the exit status."""
        with contextlib.suppress(ImportError):  # not on Windows, whose console has a history
            importlib.import_module("readline")  # gives input() its history and editing
        say(f"{self._model}. /help lists the commands.")
        while (line := _read_line()) is not None:
            if line.strip() == "/exit":
                return 0
            self._take(line)
        say("")
        return 0

    def _take(self, line: str) -> None:
        if not line.strip():
            return
        command, _, rest = line.rstrip().partition(" ")
        if command == "/help":
            say(HELP)
        elif command == "/new":
            self._messages = _messages(self._options.system, None)
        elif command == "/system":
            self._options.system = rest.strip() or None
            self._messages = _messages(self._options.system, None)
        elif command == "/regenerate":
            self._regenerate()
        elif command.startswith("/") and command[1:].isalpha():
            say(f"There is no command {command}. /help lists them. To say it, begin with a space.")
        else:
            self._messages.append({"role": "user", "content": line.strip()})
            self._answer()

    def _regenerate(self) -> None:
        if self._messages and self._messages[-1]["role"] == "assistant":
            self._messages.pop()
        if self._messages and self._messages[-1]["role"] == "user":
            self._answer()
        else:
            say("There is nothing to answer again.")

    def _answer(self) -> None:
        """Answer the last message; a failure is told, and the conversation goes on."""
        try:
            outcome = ask(self._session, self._options, self._model, self._messages)
        except Interrupted:
            self._messages.pop()
            say("Stopped.")
        except WorkerError as error:
            self._messages.pop()
            say(str(error))
            self._session.restart_if_dead()
        else:
            said = str(outcome.fields["text"])
            self._messages.append({"role": "assistant", "content": said})
            say(speed_text(outcome.fields))


def _prompt(options: argparse.Namespace) -> str | None:
    """The prompt of a single answer; None for a conversation. Raises UsageError."""
    prompt: str | None = options.prompt
    if prompt is None and stdin_is_terminal():
        if options.json:
            raise UsageError("--json needs a PROMPT, or one from a pipe")
        return None
    if prompt is None or prompt == "-":
        piped: str = sys.stdin.read() if sys.stdin else ""
        prompt = piped.removesuffix("\n")
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    return prompt


def _messages(system: str | None, prompt: str | None) -> list[Message]:
    messages: list[Message] = []
    if system:
        messages.append({"role": "system", "content": system})
    if prompt is not None:
        messages.append({"role": "user", "content": prompt})
    return messages


def _read_line() -> str | None:
    """One message of the person, over several lines if they end in a backslash; None at the end."""
    lines: list[str] = []
    mark = "> "
    while True:
        try:
            line = input(mark)
        except EOFError:
            return None
        if not line.endswith("\\"):
            return "\n".join([*lines, line])
        lines.append(line[:-1])
        mark = "… "


def _tell_start(event: Event) -> None:
    for note in (event.get("warning"), event.get("dropped_text")):
        if note:
            say(note)


class _Answer:
    """The answer as it comes, on stdout; a script that reads it gets it unchanged."""

    def __init__(self, streamed: bool) -> None:
        self._streamed = streamed
        self._open = False  # a line of it has begun

    def write(self, event: Event) -> None:
        """Handle an event ``text``."""
        if self._streamed:
            text: str = event["text"]
            sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
            sys.stdout.flush()
            self._open = True

    def end(self) -> None:
        """End the last line, also that of an answer that broke off."""
        if self._open:
            sys.stdout.write("\n")
            sys.stdout.flush()
