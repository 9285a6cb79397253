"""A loaded picture model: its files, tokenizers, and the weights of its networks on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from engine.formats.diffusers import PipelineFiles
from engine.formats.diffusers_configs import TextConfig, TinyVaeConfig, UNetConfig, VaeConfig
from engine.formats.diffusers_json import read_json
from engine.formats.lora import Lora, load_lora
from engine.formats.quants import Quant
from engine.gpu.device import Device
from engine.graph.graph import Graph
from engine.graph.node import Role, Value
from engine.image.clip import build_text
from engine.image.layers import Layers
from engine.image.pipeline_memory import available, gib
from engine.image.prompt_tokenizer import PromptTokenizer, load_prompt_tokenizer
from engine.image.runner_workspace import Workspace
from engine.image.settings import LoraChoice, ModelDefaults, defaults_for
from engine.image.unet import UNetSize, build_context, build_unet, latent_desc
from engine.image.vae import build_decoder
from engine.image.weights import Floats, NetworkWeights
from engine.image.weights_upload import Cancelled, Item, Progress, missing, upload
from engine.kernels.run import free_store
from engine.tensor.descriptor import DType, matrix

#: Of the memory that is free, what the weights may take before they are quantised.
WEIGHTS_SHARE = 0.7


@dataclass
class ImageModel:
    """Everything of one model that is on the GPU, and what is needed to bring more.

    Attributes:
        texts: weights of the text encoders, in order.
        dtype: the element type of activations where nothing needs more range.
        loras: the LoRA files that are in the weights now, ``open_loras`` the files themselves.
        preview: a tiny autoencoder for the live preview, where one lies beside the model.
        notes: sentences for the person: what was guessed, what was quantised.
        zeros_for_no_text: zeros stand for an empty negative prompt, instead of its encoding (SDXL).
    """

    device: Device
    files: PipelineFiles
    defaults: ModelDefaults
    tokenizers: tuple[PromptTokenizer, ...]
    texts: tuple[NetworkWeights, ...]
    unet: NetworkWeights
    vae: NetworkWeights
    workspace: Workspace
    dtype: DType
    notes: list[str]
    preview: tuple[TinyVaeConfig, NetworkWeights] | None = None
    zeros_for_no_text: bool = True
    loras: tuple[LoraChoice, ...] = ()
    open_loras: Sequence[Lora] = ()

    @property
    def networks(self) -> tuple[NetworkWeights, ...]:
        """The weights of all networks."""
        return (*self.texts, self.unet, self.vae)

    @property
    def unet_config(self) -> UNetConfig:
        """The denoiser's configuration."""
        return self.files.unet

    @property
    def vae_config(self) -> VaeConfig | TinyVaeConfig:
        """The autoencoder's configuration."""
        return self.files.vae

    @property
    def text_configs(self) -> tuple[TextConfig, ...]:
        """The text encoders' configurations."""
        return self.files.texts

    @property
    def two_part(self) -> bool:
        """Whether the denoiser also reads pooled text and sizes (SDXL)."""
        return self.files.unet.added_dim > 0

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights on the GPU."""
        return sum(weights.nbytes for weights in self._brought)

    @property
    def _brought(self) -> tuple[NetworkWeights, ...]:
        """The weights that are on the GPU: those of all networks, and of the preview's."""
        return (*self.networks, self.preview[1]) if self.preview is not None else self.networks

    def bring(self, progress: Progress, cancelled: Cancelled) -> None:
        """Upload what graphs built since the last time ask for."""
        items = missing(self._brought, self.workspace.store)
        if items:
            upload(self.device, items, self.workspace.store, progress, cancelled)

    def destroy(self) -> None:
        """Give back all memory and let the files go."""
        self.workspace.drop_arena()
        free_store(self.workspace.store)
        _close(self.open_loras)
        self.files.close()


def load_model(
    device: Device,
    files: PipelineFiles,
    *,
    memory_limit: int | None,
    progress: Progress,
    cancelled: Cancelled,
) -> ImageModel:
    """Bring the weights of what every picture needs to the GPU.

    Takes the open files over: they are closed with the model, or here when something goes wrong.

    Raises:
        FormatError: the model is of a kind that is not run.
        OutOfMemoryError: it does not fit; everything allocated so far has been given back.
        LoadCancelledError: ``cancelled()`` became true.
    """
    try:
        model = describe_model(device, files, memory_limit)
    except BaseException:
        files.close()
        raise
    try:
        model.bring(progress, cancelled)
    except BaseException:
        model.destroy()
        raise
    return model


def describe_model(device: Device, files: PipelineFiles, memory_limit: int | None) -> ImageModel:
    """A model whose weights are known by their shapes alone; nothing is uploaded."""
    notes = list(files.notes)
    quant = weight_kind(device, files, memory_limit, notes)
    limit = device.caps.limits.binding_bytes
    names = ("text_encoder", "text_encoder_2")[: len(files.texts)]
    half = device.caps.f16 and not device.caps.software
    model = ImageModel(
        device=device,
        files=files,
        defaults=defaults_for(files),
        tokenizers=tuple(load_prompt_tokenizer(each) for each in files.tokenizers),
        texts=tuple(NetworkWeights(name, files.weights[name], quant, limit) for name in names),
        unet=NetworkWeights("unet", files.weights["unet"], quant, limit),
        vae=NetworkWeights("vae", files.weights["vae"], Quant.F16, limit),
        workspace=Workspace(device),
        dtype=DType.F16 if half else DType.F32,
        notes=notes,
        preview=_preview(files, limit),
        zeros_for_no_text=_zeros_for_no_text(files),
    )
    _ask_for_all(model)
    return model


def _preview(files: PipelineFiles, limit: int) -> tuple[TinyVaeConfig, NetworkWeights] | None:
    tiny = files.preview
    if tiny is None or not isinstance(tiny.config, TinyVaeConfig):
        return None
    return tiny.config, NetworkWeights("preview", tiny.weights, Quant.F16, limit)


def _zeros_for_no_text(files: PipelineFiles) -> bool:
    """What the model's folder says of empty prompts; checkpoints say nothing."""
    if files.kind != "folder":
        return True
    index = read_json(files.path / "model_index.json")
    return index.get("force_zeros_for_empty_prompt") is not False


def weight_kind(
    device: Device, files: PipelineFiles, memory_limit: int | None, notes: list[str]
) -> Quant:
    """F16, or Q8_0 (the notes say so) where 16 bits would leave too little room to work."""
    room, need = available(device, memory_limit), 2 * files.parameters
    if room is None or need <= WEIGHTS_SHARE * room:
        return Quant.F16
    notes.append(
        f"In 16 bits the weights take {gib(need)} and {gib(room)} are free, so they are kept in 8 "
        "bits: pictures differ a little."
    )
    return Quant.Q8_0


def _ask_for_all(model: ImageModel) -> None:
    """Build every graph that a picture from a prompt needs once, so that weights are known."""
    for config, weights in zip(model.text_configs, model.texts, strict=True):
        build_text(config, weights, 1)
    config = model.unet_config
    size = UNetSize(1, 8 * 16, 8 * 16, model.tokenizers[0].positions)
    build_context(config, model.unet, size, DType.F32)
    layers = Layers(Graph("unet"), model.unet)
    channels = model.vae_config.latent_channels
    x = Value("x", latent_desc(1, size.height, size.width, channels), Role.INPUT)
    time = Value("time", matrix(1, config.block_out_channels[0]), Role.INPUT)
    condition = condition_value(model.files, size)
    build_unet(layers, config, size, x, time, added_value(config, 1), condition=condition)
    build_decoder(model.vae_config, model.vae, (1, 16, 16), DType.F32)
    if model.preview is not None:
        build_decoder(*model.preview, (1, 16, 16), DType.F32)


def added_value(config: UNetConfig, batch: int) -> Value | None:
    """What the time embedding takes besides the time, see :func:`build_unet`."""
    width = config.added_dim or config.time_cond_dim
    return Value("added", matrix(batch, width), Role.INPUT) if width else None


def condition_value(files: PipelineFiles, size: UNetSize) -> Value | None:
    """What an inpainting model reads beside the latents, see :func:`build_unet`."""
    if not files.reads_mask:
        return None
    channels = files.unet.in_channels - files.vae.latent_channels
    return Value(
        "condition", latent_desc(size.batch, size.height, size.width, channels), Role.INPUT
    )


def set_loras(
    model: ImageModel, loras: Sequence[LoraChoice], progress: Progress, cancelled: Cancelled
) -> None:
    """Put other LoRA files into the weights; only weights that change are uploaded again.

    Raises:
        FormatError: a file is broken, or does not fit the model.
    """
    wanted = tuple(loras)
    if wanted == model.loras:
        return
    opened: list[Lora] = []
    try:
        opened += [load_lora(choice.path) for choice in wanted]
        new = [
            _added(model, w, opened, [choice.weight for choice in wanted]) for w in model.networks
        ]
    except BaseException:
        _close(opened)
        raise
    items = _changed(model, new)
    _close(model.open_loras)
    model.loras, model.open_loras = (), opened  # named only once the upload is whole
    upload(model.device, items, model.workspace.store, progress, cancelled)
    model.loras = wanted


def _close(loras: Sequence[Lora]) -> None:
    for lora in loras:
        lora.close()


def _added(
    model: ImageModel, weights: NetworkWeights, loras: Sequence[Lora], strengths: Sequence[float]
) -> dict[str, list[Callable[[], Floats]]]:
    """What LoRA files add to each weight of a network."""
    new: dict[str, list[Callable[[], Floats]]] = {}
    for lora, strength in zip(loras, strengths, strict=True):
        for name, delta in lora.deltas(weights.label, model.files).items():
            new.setdefault(name, []).append(partial(_scaled, delta, strength))
    return new


def _changed(model: ImageModel, new: Sequence[dict[str, list[Callable[[], Floats]]]]) -> list[Item]:
    """Give the networks their new additions; the values whose numbers differ from before."""
    items: list[Item] = []
    for weights, deltas in zip(model.networks, new, strict=True):
        touched = {*weights.deltas, *deltas}
        weights.deltas = deltas
        items += [
            (weights, value)
            for value, recipe in weights.recipes.items()
            if touched.intersection(recipe.names)
        ]
    return items


def _scaled(delta: Callable[[], Floats], strength: float) -> Floats:
    return delta() * np.float32(strength)
