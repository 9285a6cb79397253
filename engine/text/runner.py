"""Runs a loaded model: prefill in chunks, decode one token at a time, nothing recomputed per token.

The CPU encodes ahead: decode steps are replays of the same recorded list, a few to a submission,
and their tokens come back through a ring, a submission or two late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.gpu.commands import submit
from engine.gpu.device import Device
from engine.gpu.ledger import Purpose
from engine.gpu.readback import ReadbackRing
from engine.gpu.shaders import BufferRange
from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.kernels import state as run_state
from engine.kernels.program import Arena, Lowered, Program, build, lower_graph
from engine.kernels.run import Store, free_store
from engine.tensor.descriptor import DType, matrix
from engine.text import llama
from engine.text.model import RING_TOKENS, ModelValues

#: Chunk sizes of prefill, smallest first: one compiled program each, made when first needed.
GPU_CHUNKS = (16, 64, 256, 512)
SOFTWARE_CHUNKS = (8, 32)

#: Submissions in flight before the oldest is read, so that the GPU never waits for the CPU.
AHEAD = 2
#: Steps of one submission: as many as fit in this many seconds, at most MOST_STEPS. A submission
#: and its read cost the CPU 0.1 to 0.2 ms, which a small model on a fast GPU would feel; a stop
#: wastes the steps in flight.
SUBMISSION_SECONDS = 0.004
MOST_STEPS = 8


@dataclass
class RunnerStats:
    """Decode steps and the CPU time of the thread that encoded them, in seconds."""

    steps: int = 0
    encode_seconds: float = 0.0


@dataclass
class Runner:
    """One model on one device, with its KV cache.

    Attributes:
        position: tokens in the KV cache whose values are valid.
    """

    device: Device
    model: ModelValues
    store: Store
    position: int = 0
    stats: RunnerStats = field(default_factory=RunnerStats)

    def __post_init__(self) -> None:
        software = self.device.caps.software
        limit = max(2, self.model.context)
        sizes = SOFTWARE_CHUNKS if software else GPU_CHUNKS
        self.chunks = tuple(size for size in sizes if size <= limit) or (sizes[0],)
        self._ahead = 1 if software else AHEAD
        # f16 inside a layer halves prefill's traffic; software devices convert it number by number
        half = self.device.caps.f16 and not software
        self._dtype = DType.F16 if half else DType.F32
        self._programs: dict[str, Program] = {}
        self._lowered = self._lower_all()
        self.arena = Arena(self.device, [low.plan for low in self._lowered.values()])
        self._ring = ReadbackRing(self.device, 4 * (run_state.WORDS + RING_TOKENS), AHEAD + 2)
        self._seen = 0  # tokens of this generation that have been taken

    def _lower_all(self) -> dict[str, Lowered]:
        """Plan every program now, so that the arena is allocated once; compile them when needed."""
        self._allocate_io()
        lowered = {"decode": lower_graph(self._decode_graph(), self.device.caps)}
        for size in self.chunks:
            lowered[f"body.{size}"] = lower_graph(self._body_graph(size), self.device.caps)
            lowered[f"head.{size}"] = lower_graph(self._head_graph(size), self.device.caps)
        return lowered

    def _allocate_io(self) -> None:
        largest = self.chunks[-1]
        width = self.model.config.embedding
        residual = self.device.create_buffer(largest * width * 4 + 64, Purpose.ACTIVATIONS)
        tokens = self.device.create_buffer(largest * 4, Purpose.OTHER)
        logits = self.device.create_buffer(self.model.config.vocabulary * 4, Purpose.ACTIVATIONS)
        self._residual: dict[int, tuple[Value, Value]] = {}
        for size in self.chunks:
            desc = matrix(size, width)
            pair = (
                Value(f"residual.{size}", desc, Role.OUTPUT),
                Value(f"residual_in.{size}", desc, Role.INPUT),
            )
            self._residual[size] = pair
            for value in pair:
                self.store.tensors[value] = BufferRange(residual, 0, residual.nbytes)
            self.store.tensors[self.model.tokens(size)] = BufferRange(tokens, 0, tokens.nbytes)
        self._tokens, self._logits = tokens, logits

    def _decode_graph(self) -> Graph:
        graph = Graph("decode")
        x = llama.build_body(graph, self.model, 1, DType.F32)
        self._sampled(graph, llama.build_head(graph, self.model, x))
        return graph

    def _body_graph(self, size: int) -> Graph:
        graph = Graph(f"body.{size}")
        out = graph.use(self._residual[size][0])
        llama.build_body(graph, self.model, size, self._dtype, out)
        return graph

    def _head_graph(self, size: int) -> Graph:
        graph = Graph(f"head.{size}")
        x = graph.use(self._residual[size][1])
        self._sampled(graph, llama.build_head(graph, self.model, x))
        return graph

    def _sampled(self, graph: Graph, logits: Value) -> None:
        model = self.model
        self.store.tensors[logits] = BufferRange(self._logits, 0, self._logits.nbytes)
        shared = ("history", "params", "state", "stops", "ring")
        inputs = {"logits": logits} | {name: graph.use(getattr(model, name)) for name in shared}
        graph.add("sample", inputs, outputs=[], sequence_max=model.context)

    def program(self, name: str) -> Program:
        """A compiled program, made on first use."""
        found = self._programs.get(name)
        if found is None:
            found = build(self.device, self._lowered[name], self.arena, self.store)
            self._programs[name] = found
        return found

    def compile(self, progress: Callable[[str, int, int], None]) -> None:
        """Compile what an answer needs first.

        That is decode; on software devices, whose compiler takes seconds a program and waits for
        its first run, all programs run once, while the person still sees a model being loaded and
        not an answer that does not come.
        """
        software = self.device.caps.software
        names = list(self._lowered) if software else ["decode"]
        for done, name in enumerate(names):
            progress("compiling", done, len(names))
            program = self.program(name)
            if software:
                self._set_state(0, 1)
                submit(self.device, [program.commands])
                self.device.wait()

    def _set_state(self, position: int, count: int) -> None:
        """Say where the next chunk starts and how many of its rows are valid."""
        self._write(self.model.state, np.array([position, count], np.uint32), run_state.POSITION)

    def begin(
        self, seed: int, params: np.ndarray, recent: Sequence[int], stops: Sequence[int]
    ) -> None:
        """Start a generation: seed, sampler settings, the tokens before it, its stop tokens."""
        self.drain()
        self._seen = 0
        history, at = run_state.pack_history(recent, self.model.config.vocabulary)
        state = run_state.pack_state(position=self.position, seed=seed, recent=at)
        self._write(self.model.params, params)
        self._write(self.model.history, history)
        self._write(self.model.stops, run_state.pack_stops(stops))
        self._write(self.model.state, state)

    def _write(self, value: Value, words: np.ndarray, offset: int = 0) -> None:
        target = self._range(value)
        self.device.upload(target.buffer, words, target.offset + 4 * offset)

    def prefill(
        self,
        tokens: Sequence[int],
        cancelled: Callable[[], bool],
        progress: Callable[[int, int], None],
    ) -> bool:
        """Append ``tokens`` to the cache and sample the one that follows (see :meth:`decode`).

        Returns:
            False when cancelled between two chunks; ``position`` then tells how far it came.
        """
        done, total = 0, len(tokens)
        while done < total:
            if cancelled():
                return False
            size = self._chunk_for(total - done)
            piece = np.asarray(tokens[done : done + size], np.uint32)
            self._submit_chunk(piece, size, last=done + len(piece) == total)
            done += len(piece)
            self.position += len(piece)
            if done < total:  # keeps the queue one chunk deep, so that a stop is quick
                self.device.wait()
            progress(done, total)
        return True

    def _chunk_for(self, remaining: int) -> int:
        """Rows past the end cost a GPU nothing and a CPU as much as any: round up or down."""
        if self.device.caps.software:
            return max((size for size in self.chunks if size <= remaining), default=self.chunks[0])
        return next((size for size in self.chunks if size >= remaining), self.chunks[-1])

    def _submit_chunk(self, piece: np.ndarray, size: int, last: bool) -> None:
        self._set_state(self.position, len(piece))
        if len(piece) == 1 and last:
            self._write(self.model.state, piece, run_state.TOKEN)
            self._submit(["decode"])
            return
        self.device.upload(self._tokens, piece)
        self._submit([f"body.{size}", f"head.{size}"] if last else [f"body.{size}"], read=last)

    def decode(self, most: int) -> Iterator[int]:
        """The sampled token that prefill left, then decoded ones, as they come.

        Ends after ``most`` tokens, or when the GPU has drawn a stop token. Steps are submitted
        ahead of the reader; :meth:`drain` drops what was not read.
        """
        sampled, taken, steps = 1, 0, 1
        last = time.perf_counter()
        while taken < most:
            while sampled < most and self._ring.in_flight <= self._ahead:
                count = min(steps, most - sampled)
                self._step(count)
                sampled += count
            tokens = self._take()
            if not tokens:
                return
            now = time.perf_counter()
            per_token, last = (now - last) / len(tokens), now
            steps = max(1, min(MOST_STEPS, int(SUBMISSION_SECONDS / max(per_token, 1e-6))))
            yield from tokens
            taken += len(tokens)

    def _step(self, count: int) -> None:
        """Submit decode steps: the token sampled last goes in, the next comes out, and so on."""
        start = time.thread_time()
        self._submit(["decode"] * count)
        self.position += count
        self.stats.steps += count
        self.stats.encode_seconds += time.thread_time() - start

    def _submit(self, names: Sequence[str], read: bool = True) -> None:
        lists = [self.program(name).commands for name in names]
        if not read:
            submit(self.device, lists)
            return
        state, ring = (self._range(value) for value in (self.model.state, self.model.ring))
        copies = self._ring.copy_from(
            (state.buffer, state.offset, 4 * run_state.WORDS),
            (ring.buffer, ring.offset, 4 * RING_TOKENS),
        )
        self._ring.filled(submit(self.device, lists, copies))

    def _range(self, value: Value) -> BufferRange:
        found = self.store.tensors[value]
        assert isinstance(found, BufferRange)
        return found

    def _take(self) -> list[int]:
        """Wait for the oldest submission in flight; the tokens that it sampled."""
        words = self._ring.take().view(np.uint32)
        total = int(words[run_state.RING])
        places = [at % RING_TOKENS for at in range(self._seen, total)]
        self._seen = total
        return [int(words[run_state.WORDS + at]) for at in places]

    def drain(self) -> None:
        """Drop the tokens in flight."""
        self._ring.drain()

    def plan_figures(self) -> dict[str, int]:
        """Bytes of activations: planned for all programs, the lower bound, and without a plan."""
        plans = [low.plan for low in self._lowered.values()]
        return {
            "planned_bytes": sum(self.arena.sizes),
            "lower_bound_bytes": max(plan.lower_bound for plan in plans),
            "unplanned_bytes": max(plan.unplanned for plan in plans),
        }

    def logits(self) -> np.ndarray:
        """The last logits, f32 ``[vocabulary]``; waits. For tests and measurements."""
        data = self.device.download(self._logits, 4 * self.model.config.vocabulary)
        return data.view(np.float32).copy()

    def destroy(self) -> None:
        """Give back everything that the model holds."""
        self._ring.destroy()
        self._programs.clear()
        self.arena.destroy()
        free_store(self.store)
