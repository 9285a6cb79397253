"""From prompts to what the denoiser reads: hidden states, pooled text, sizes.

The text encoders run once for each prompt; results are kept for the prompts used last.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.gpu.commands import submit
from engine.graph.node import Value
from engine.image.clip import TextGraph, build_text
from engine.image.errors import ImageError
from engine.image.pipeline_model import ImageModel
from engine.image.prompt import EncodedPrompt, apply_weights, encode_prompt, matched
from engine.image.runner_graph import Floats
from engine.kernels.run import read_tensor, write_tensor
from engine.tensor.descriptor import DType

KEPT = 32  # encoded chunks that are remembered


@dataclass(frozen=True)
class Conditions:
    """What both branches read: ``text`` [branches, tokens, width], unconditional first.

    Attributes:
        pooled: [branches, width], of models that read it, else None.
        notes: what was cut or chunked.
        redone: whether 16-bit floats overflowed and the encoder ran in 32 bits.
    """

    text: Floats
    pooled: Floats | None
    notes: tuple[str, ...]
    redone: bool


@dataclass(frozen=True)
class _Encoded:
    """One chunk: hidden states [positions, width], projected ones where there are."""

    hidden: Floats
    projected: Floats | None


@dataclass
class TextStage:
    """The text encoders of a model.

    Attributes:
        precise: they run with f32 activations, because f16 overflowed once.
    """

    model: ImageModel
    precise: bool = False
    _graphs: dict[str, TextGraph] = field(default_factory=dict[str, TextGraph])
    _kept: OrderedDict[tuple[object, ...], _Encoded] = field(
        default_factory=OrderedDict[tuple[object, ...], _Encoded]
    )

    def forget(self) -> None:
        """Drop remembered prompts: the weights have changed."""
        self._kept.clear()

    def register(self, clip_skip: int) -> None:
        """Plan the programs that a prompt needs, so that they share the arena from the start."""
        for index in range(len(self.model.texts)):
            self._graph(index, clip_skip)

    def conditions(self, prompt: str, negative: str, *, guided: bool, clip_skip: int) -> Conditions:
        """Encode a prompt, and where ``guided`` what to stay away from."""
        was_precise = self.precise
        branches = [negative, prompt] if guided else [prompt]
        texts: list[Floats] = []
        pooled: list[Floats | None] = []
        notes: list[str] = []
        for index in range(len(self.model.texts)):
            encoded = self._encoded(index, branches, notes)
            hidden = [self._states(index, each, clip_skip) for each in encoded]
            texts.append(np.stack([state for state, _ in hidden]))
            pooled = [pool for _, pool in hidden]
        text = np.concatenate(texts, axis=-1)
        return self._finished(text, pooled, negative, guided, notes, self.precise != was_precise)

    def _finished(
        self,
        text: Floats,
        pooled: list[Floats | None],
        negative: str,
        guided: bool,
        notes: list[str],
        redone: bool,
    ) -> Conditions:
        if not self.model.two_part:
            return Conditions(text, None, tuple(notes), redone)
        present = [pool for pool in pooled if pool is not None]
        if len(present) != len(pooled):
            raise ImageError("This model's second text encoder has no projection.")
        stacked = np.stack(present)
        if guided and not negative.strip() and self.model.zeros_for_no_text:
            # SDXL was trained with zeros, not an empty prompt, for no text at all
            text[0], stacked[0] = 0, 0
        return Conditions(text, stacked, tuple(notes), redone)

    def _encoded(self, index: int, branches: list[str], notes: list[str]) -> list[EncodedPrompt]:
        """The prompts as an encoder takes them; what is cut or chunked is noted once."""
        tokenizer = self.model.tokenizers[index]
        encoded = [encode_prompt(tokenizer, text) for text in branches]
        if index == 0:
            notes += [each.note for each in encoded[-1:] if each.note]
            unwanted = [each.note for each in encoded[:-1] if each.note]
            notes += [note.replace("The prompt", "The negative prompt", 1) for note in unwanted]
        if len(encoded) == 2:
            encoded = list(matched(tokenizer, encoded[0], encoded[1]))
        return encoded

    def _states(
        self, index: int, prompt: EncodedPrompt, clip_skip: int
    ) -> tuple[Floats, Floats | None]:
        """Hidden states of all chunks [chunks * positions, width], and the pooled text."""
        chunks = [self._chunk(index, ids, clip_skip) for ids in prompt.ids]
        hidden = apply_weights(np.stack([chunk.hidden for chunk in chunks]), prompt.weights)
        projected = chunks[0].projected
        pooled = None if projected is None else projected[prompt.eos[0]]
        return hidden.reshape(-1, hidden.shape[-1]), pooled

    def _chunk(self, index: int, ids: NDArray[np.int32], clip_skip: int) -> _Encoded:
        key = (index, clip_skip, ids.tobytes())
        found = self._kept.get(key)
        if found is None:
            found = self._run(index, ids, clip_skip)
            if not _sound(found) and not self.precise and self.model.dtype is DType.F16:
                self.precise = True
                found = self._run(index, ids, clip_skip)
            if not _sound(found):
                raise ImageError("The text encoder gives no numbers: the model file is damaged.")
            self._kept[key] = found
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found

    def _graph(self, index: int, clip_skip: int) -> tuple[str, TextGraph]:
        """The program of one chunk; SDXL reads the layer before the last, without the norm."""
        model = self.model
        config = model.text_configs[index]
        dtype = DType.F32 if self.precise else model.dtype
        skip = min(clip_skip - 1 + int(model.two_part), config.layers - 1)
        name = f"text.{index}.{skip}.{dtype.value}"
        found = self._graphs.get(name)
        if found is None:
            normed = not model.two_part
            found = build_text(config, model.texts[index], 1, skip=skip, normed=normed, dtype=dtype)
            self._graphs[name] = found
        if name not in model.workspace:
            model.workspace.register(name, found.graph)
        return name, found

    def _run(self, index: int, ids: NDArray[np.int32], clip_skip: int) -> _Encoded:
        name, graph = self._graph(index, clip_skip)
        device, store = self.model.device, self.model.workspace.store
        positions = len(ids)
        known = np.clip(ids, 0, self.model.text_configs[index].vocab_size - 1)
        for value, array in ((graph.tokens, known), (graph.places, np.arange(positions))):
            write_tensor(device, store.tensors[value], value.tensor, array.astype(np.uint32))
        submit(device, [self.model.workspace.program(name).commands])

        def read(value: Value) -> Floats:
            made = read_tensor(device, store.tensors[value], value.tensor)
            return made.reshape(positions, -1).astype(np.float32)

        projected = None if graph.projected is None else read(graph.projected)
        return _Encoded(read(graph.hidden), projected)


def _sound(encoded: _Encoded) -> bool:
    fine = bool(np.isfinite(encoded.hidden).all())
    return fine and (encoded.projected is None or bool(np.isfinite(encoded.projected).all()))


def sizes_and_pooled(model: ImageModel, pooled: Floats, width: int, height: int) -> Floats:
    """SDXL's added input [branches, added_dim]: pooled text, then original size, crop, target."""
    numbers = np.array([height, width, 0, 0, height, width], np.float64)
    config = model.unet_config
    half = config.added_time_dim // 2
    rates = np.exp(-math.log(10000.0) * np.arange(half) / (half - config.freq_shift))
    angles = numbers[:, None] * rates
    waves = [np.cos(angles), np.sin(angles)]
    if not config.flip_sin_to_cos:
        waves.reverse()
    sizes = np.concatenate(waves, axis=1).reshape(1, -1)
    repeated = np.repeat(sizes, len(pooled), axis=0)
    return np.concatenate([pooled, repeated], axis=1).astype(np.float32)


def embedded_guidance(width: int, guidance: float) -> Floats:
    """What LCM denoisers read instead of running two branches, [1, width]."""
    half = width // 2
    rates = np.exp(-math.log(10000.0) * np.arange(half) / (half - 1))
    angles = (guidance - 1.0) * 1000.0 * rates
    waves = np.concatenate([np.sin(angles), np.cos(angles)])
    return np.pad(waves, (0, width - 2 * half)).reshape(1, -1).astype(np.float32)
