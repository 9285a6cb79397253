"""The text engine as the worker sees it: a device, at most one model, its conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from engine.formats.gguf import open_gguf
from engine.gpu.device import Device, open_device
from engine.gpu.findings import Findings
from engine.gpu.ledger import Purpose
from engine.gpu.memory import device_memory
from engine.text.chat_template import ChatTemplate
from engine.text.context import Fitted, fit_messages
from engine.text.errors import TextError
from engine.text.loader import Loaded, load
from engine.text.report import doctor_report
from engine.text.sampling import Sampling
from engine.text.selftest import check_device
from engine.text.session import Answer, Callbacks, Session
from engine.text.tokenizer import Tokenizer, load_tokenizer
from engine.text.weights import Cancelled, Progress

Message = Mapping[str, Any]
Fields = dict[str, Any]
OnStarted = Callable[[Mapping[str, Any]], None]
OnPrefill = Callable[[int, int], None]
OnText = Callable[[str, int, int], None]

#: Tokens kept free for the answer when a conversation is cut to fit, at most a quarter of the
#: context: with less, an answer would end in the middle of a sentence.
ANSWER_RESERVE = 512


class Settings(Protocol):
    """Which GPU to open and what to leave out."""

    @property
    def backend(self) -> str | None:
        """ "wgpu", "dawn" or None."""
        ...

    @property
    def device(self) -> str | None:
        """A part of the adapter's name."""
        ...

    @property
    def without(self) -> tuple[str, ...]:
        """Techniques to switch off."""
        ...


@dataclass(frozen=True)
class ActiveModel:
    """A loaded model with everything that talking to it needs."""

    loaded: Loaded
    tokenizer: Tokenizer
    template: ChatTemplate
    session: Session


class TextEngine:
    """Loads models and answers on one device. Not safe for threads, but for :meth:`memory`."""

    def __init__(self, device: Device, findings: Findings) -> None:
        self.device = device
        self.findings = findings
        self._active: ActiveModel | None = None

    @classmethod
    def open(cls, settings: Settings, cache: Path | None = None) -> TextEngine:
        """Open the GPU.

        Args:
            cache: the folder where what is found out about this GPU is kept; None: nowhere.

        Raises:
            NoAdapterError: nothing usable was found.
        """
        without = frozenset(settings.without)
        device = open_device(settings.backend, settings.device, without)
        findings = Findings(None if cache is None else cache / "devices.json")
        known = findings.of(device.caps).get("excluded", [])
        device.caps = replace(device.caps, excluded=frozenset(known))
        return cls(device, findings)

    @property
    def active(self) -> ActiveModel:
        """The loaded model; raises TextError when there is none."""
        if self._active is None:
            raise TextError("No model is loaded.")
        return self._active

    def load(
        self, path: Path, context: int | None, progress: Progress, cancelled: Cancelled
    ) -> Fields:
        """Load a model in place of the one before; see the worker's protocol for the fields."""
        self.unload()
        with open_gguf(path) as file:
            kinds = {info.quant for info in file.tensors.values() if len(info.shape) == 2}
        check_device(self.device, kinds, self.findings, progress)
        self.device.ledger.reset_peak()
        loaded = load(self.device, path, context, progress, cancelled)
        try:
            tokenizer = load_tokenizer(loaded.metadata)
            template = ChatTemplate.from_metadata(loaded.metadata, tokenizer)
        except TextError:
            loaded.runner.destroy()
            raise
        session = Session(loaded.runner, tokenizer, template.end_ids, template.stops)
        self._active = ActiveModel(loaded, tokenizer, template, session)
        return {
            "context": loaded.context,
            "context_max": loaded.config.context_max,
            **self._device_fields(),
        }

    def _device_fields(self) -> Fields:
        return {"device": self.device.caps.device, "backend": self.device.caps.backend}

    def chat(
        self,
        messages: Sequence[Message],
        sampling: Sampling,
        continue_last: bool,
        on_started: OnStarted,
        on_prefill: OnPrefill,
        on_text: OnText,
        cancelled: Cancelled,
    ) -> Fields:
        """Answer a conversation, dropping its oldest turns where it does not fit."""
        fitted = self._fit(messages, sampling, continue_last)
        prompt = self._encode(fitted.messages, continue_last)
        extra = {
            "dropped": list(fitted.dropped),
            "dropped_text": fitted.dropped_text,
            "warning": self._warning(),
        }
        calls = Callbacks(on_prefill, on_text, cancelled)
        return self._generate(prompt, sampling, calls, on_started, extra, continue_last)

    def complete(
        self,
        prompt: str,
        sampling: Sampling,
        on_started: OnStarted,
        on_prefill: OnPrefill,
        on_text: OnText,
        cancelled: Cancelled,
    ) -> Fields:
        """Go on with a text as it stands, without a chat template."""
        ids = self.active.tokenizer.encode(prompt)
        if not ids:
            raise TextError("There is no text to continue.")
        extra: Fields = {"dropped": [], "dropped_text": None, "warning": None}
        calls = Callbacks(on_prefill, on_text, cancelled)
        return self._generate(ids, sampling, calls, on_started, extra, True)

    def count(self, messages: Sequence[Message]) -> Fields:
        """Tokens of a conversation as a prompt, and of the whole context."""
        return {
            "tokens": len(self._encode(messages, False)),
            "context_size": self.active.loaded.context,
        }

    def _fit(self, messages: Sequence[Message], sampling: Sampling, continue_last: bool) -> Fitted:
        context = self.active.loaded.context
        reserve = min(sampling.max_tokens or ANSWER_RESERVE, ANSWER_RESERVE, context // 4)
        return fit_messages(
            messages,
            lambda some: len(self._encode(some, continue_last)),
            context=context,
            reserve=max(1, reserve),
        )

    def _encode(self, messages: Sequence[Message], continue_last: bool) -> list[int]:
        active = self.active
        go_on = continue_last and bool(messages) and messages[-1]["role"] == "assistant"
        return active.template.encode(messages, active.tokenizer, continue_last=go_on)

    def _warning(self) -> str | None:
        """What had to be guessed about this model, in words, or None."""
        active = self.active
        parts = [*active.tokenizer.warnings, active.template.warning]
        return " ".join(part for part in parts if part) or None

    def _generate(
        self,
        prompt: list[int],
        sampling: Sampling,
        calls: Callbacks,
        on_started: OnStarted,
        extra: Fields,
        continuing: bool,
    ) -> Fields:
        active = self.active
        reused = active.session.reusable(prompt)
        on_started(
            {
                "prompt_tokens": len(prompt),
                "prompt_token_ids": prompt,
                "reused_tokens": reused,
                **extra,
            }
        )
        answer = active.session.generate(prompt, sampling, calls, continuing=continuing)
        return self._answer_fields(answer, prompt) | {"dropped": extra["dropped"]}

    def _answer_fields(self, answer: Answer, prompt: list[int]) -> Fields:
        return {
            "stop_reason": answer.stop_reason,
            "text": answer.text,
            "token_ids": answer.token_ids,
            "prompt_tokens": answer.prompt_tokens,
            "prompt_token_ids": prompt,
            "completion_tokens": len(answer.token_ids),
            "seconds_to_first_token": answer.seconds_to_first_token,
            "prefill_tokens_per_second": answer.prefill_tokens_per_second,
            "decode_tokens_per_second": answer.decode_tokens_per_second,
            "context_used": answer.prompt_tokens + len(answer.token_ids),
            "context_size": self.active.loaded.context,
            **self._device_fields(),
        }

    def memory(self) -> Fields:
        """What is held now, and what the platform says of the device."""
        totals = self.device.ledger.totals()
        platform = device_memory(self.device.caps)
        others = None
        if platform.used is not None:
            others = max(0, platform.used - totals.total)
        return {
            **{purpose.value: totals.by_purpose[purpose] for purpose in Purpose},
            "total": totals.total,
            "peak": totals.peak,
            "device_total": platform.total,
            "device_used": platform.used,
            "others": others,
            "device_name": self.device.caps.device,
            "backend": self.device.caps.backend,
            "unified": self.device.caps.unified_memory,
        }

    def doctor(self) -> Fields:
        """What GPU and driver were found, what works, what is missing."""
        return doctor_report(self.device)

    def bench(self, kind: str, **options: Any) -> Fields:
        """Measure; see :mod:`engine.text.bench`."""
        from engine.text import bench

        return bench.run(self, kind, **options)

    def unload(self) -> None:
        """Free the loaded model, if there is one."""
        active, self._active = self._active, None
        if active is not None:
            active.loaded.runner.destroy()

    def close(self) -> None:
        """Free everything and the device."""
        self.unload()
        self.device.close()
