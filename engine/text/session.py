"""Generation on a loaded model: prefill only what is new, decode ahead, stop in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from engine.kernels import state as run_state
from engine.text.errors import ContextFullError
from engine.text.runner import Runner
from engine.text.sampling import Sampling
from engine.text.stop import StopScanner
from engine.text.tokenizer import StreamDecoder, Tokenizer


@dataclass(frozen=True)
class Callbacks:
    """What a generation reports, all on the calling thread.

    Attributes:
        on_prefill: (tokens done, tokens in all) of the part that is new.
        on_text: (new text, tokens of the answer so far, tokens in the context).
        cancelled: polled once a token and once a prefill chunk.
    """

    on_prefill: Callable[[int, int], None]
    on_text: Callable[[str, int, int], None]
    cancelled: Callable[[], bool]


@dataclass
class Answer:
    """A generated text, growing; seconds are wall time."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list[int])
    stop_reason: str = ""  # "end", "length", "stop", "stopped"
    prompt_tokens: int = 0
    reused_tokens: int = 0
    seconds_to_first_token: float = 0.0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0

    @property
    def prefill_tokens_per_second(self) -> float:
        """New prompt tokens a second."""
        new = self.prompt_tokens - self.reused_tokens
        return new / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_tokens_per_second(self) -> float:
        """Tokens a second after the first."""
        count = len(self.token_ids) - 1
        return count / self.decode_seconds if count > 0 and self.decode_seconds else 0.0


class Session:
    """One conversation's KV cache on a runner.

    Attributes:
        cached: the token ids whose keys and values lie in the cache.
    """

    def __init__(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        end_ids: Iterable[int] = (),
        stops: Sequence[str] = (),
    ) -> None:
        """``end_ids`` and ``stops`` end an answer beside those of the tokenizer and the person."""
        self._runner = runner
        self._tokenizer = tokenizer
        self._end_ids = frozenset(end_ids) | tokenizer.eos_ids
        self._stops = tuple(stops)
        self.cached: list[int] = []

    def reusable(self, prompt: Sequence[int]) -> int:
        """How many tokens of ``prompt`` need no prefill; at least one always does."""
        same = 0
        for have, want in zip(self.cached, prompt, strict=False):
            if have != want:
                break
            same += 1
        return min(same, len(prompt) - 1)

    def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        calls: Callbacks,
        *,
        continuing: bool = False,
    ) -> Answer:
        """Append an answer to ``prompt``.

        Raises:
            ContextFullError: the prompt leaves no room for a single token.
            DeviceLostError: the driver dropped the device.
        """
        context = self._runner.model.context
        if len(prompt) + 1 > context:
            raise ContextFullError(len(prompt) + 1, context)
        answer = Answer(prompt_tokens=len(prompt), reused_tokens=self.reusable(prompt))
        start = time.perf_counter()
        self._begin(prompt, sampling, answer.reused_tokens)
        finished = self._runner.prefill(
            prompt[answer.reused_tokens :], calls.cancelled, calls.on_prefill
        )
        self.cached = list(prompt[: self._runner.position])
        if not finished:
            answer.stop_reason = "stopped"
            return answer
        try:
            self._decode(answer, sampling, calls, start, continuing)
        finally:
            self._settle(prompt, answer)
        return answer

    def _begin(self, prompt: Sequence[int], sampling: Sampling, reused: int) -> None:
        """Give the GPU the settings, the seed, and which tokens the penalties look at."""
        runner = self._runner
        runner.position = reused
        params = run_state.pack_params(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            repetition_penalty=sampling.repetition_penalty,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
        )
        seed = sampling.with_seed().seed or 0
        stops = sorted(self._end_ids)[: run_state.STOPS_MAX]
        runner.begin(seed, params, prompt, stops)

    def _decode(
        self,
        answer: Answer,
        sampling: Sampling,
        calls: Callbacks,
        start: float,
        continuing: bool,
    ) -> None:
        decoder = StreamDecoder(self._tokenizer, continuing=continuing)
        scanner = StopScanner((*sampling.stop, *self._stops))
        room = self._runner.model.context - answer.prompt_tokens
        for token in self._runner.decode(min(room, sampling.max_tokens or room)):
            now = time.perf_counter()
            if not answer.token_ids:
                answer.prefill_seconds = answer.seconds_to_first_token = now - start
            else:
                answer.decode_seconds = now - start - answer.seconds_to_first_token
            if token in self._end_ids:
                answer.token_ids.append(token)
                answer.stop_reason = "end"
                break
            answer.token_ids.append(token)
            text, hit = scanner.push(decoder.push(token))
            self._emit(answer, text, calls)
            if hit is not None:
                answer.stop_reason = "stop"
                return
            if calls.cancelled():
                answer.stop_reason = "stopped"
                break
        answer.stop_reason = answer.stop_reason or "length"
        text, hit = scanner.push(decoder.flush())
        self._emit(answer, text + scanner.flush(), calls)

    def _emit(self, answer: Answer, text: str, calls: Callbacks) -> None:
        count = len(answer.token_ids)
        answer.text += text
        calls.on_text(text, count, answer.prompt_tokens + count)

    def _settle(self, prompt: Sequence[int], answer: Answer) -> None:
        """After an answer: forget the steps in flight; keep what the cache holds of it."""
        self._runner.drain()
        held = [*prompt, *answer.token_ids]
        # The last token taken may not have been fed; what was fed beyond it is dropped.
        self.cached = held[: min(self._runner.position, len(held) - 1)]
        self._runner.position = len(self.cached)
