"""The autoencoder at work: latents to pictures and back, in tiles where memory is short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from engine.formats.diffusers_configs import TinyVaeConfig
from engine.gpu.commands import submit
from engine.graph.graph import Graph
from engine.graph.node import Value
from engine.image.errors import ImageError
from engine.image.pipeline_memory import fits
from engine.image.pipeline_model import ImageModel
from engine.image.pipeline_tiles import places, ramp, smaller
from engine.image.runner_costs import cut
from engine.image.runner_graph import Floats
from engine.image.vae import build_decoder, build_encoder
from engine.image.weights_upload import never, silent
from engine.kernels.run import read_tensor, write_tensor
from engine.tensor.descriptor import DType

#: Operations of one submit.
SUBMIT_SOFTWARE, SUBMIT_GPU = 5e8, 5e10
Cancelled = Callable[[], bool]
OnTile = Callable[[int, int], None]


@dataclass(frozen=True)
class Coder:
    """One direction, planned for one size; ``tile`` is (height, width) in latents."""

    name: str
    entering: Value
    leaving: Value
    tile: tuple[int, int]


@dataclass
class VaeStage:
    """The autoencoder of a model.

    Attributes:
        precise: it decodes with f32 activations, because f16 overflowed, or because SDXL's does.
    """

    model: ImageModel
    memory_limit: int | None = None
    precise: bool = False
    _coders: dict[tuple[object, ...], Coder] = field(
        default_factory=dict[tuple[object, ...], Coder]
    )

    def __post_init__(self) -> None:
        config = self.model.vae_config
        upcast = not isinstance(config, TinyVaeConfig) and config.force_upcast
        self.precise = self.model.dtype is DType.F32 or (upcast and self.model.two_part)

    def decoder(self, height: int, width: int) -> Coder:
        """Plan the decoder for latents of a size, in tiles where the whole does not fit.

        Raises:
            ImageError: not even a small tile fits.
        """
        return self._coder("decode", height, width, DType.F32 if self.precise else self.model.dtype)

    def decode(
        self, latents: Floats, on_tile: OnTile, cancelled: Cancelled
    ) -> tuple[Floats, bool] | None:
        """Latents of one picture, [h, w, c] as the denoiser left them, to [8h, 8w, 3] in -1..1.

        Returns:
            the picture, and whether f16 overflowed and it was decoded again in f32; None when
            cancelled.
        """
        scale, shift = self._scale()
        z = latents / np.float32(scale) + np.float32(shift)
        picture = self._decoded(z, on_tile, cancelled)
        if picture is None:
            return None
        if np.isfinite(picture).all():
            return picture, False
        if self.precise:
            raise ImageError(
                "The picture holds numbers that are none, in 32-bit floats too: the model is "
                "damaged, or a LoRA or a setting is far too strong."
            )
        self.precise = True
        picture = self._decoded(z, on_tile, cancelled)
        return None if picture is None else (picture, True)

    def encode(self, picture: Floats, cancelled: Cancelled) -> Floats | None:
        """A picture [h, w, 3] in -1..1 to the mean of its latents [h / 8, w / 8, c], scaled."""
        config = self.model.vae_config
        factor, channels = config.factor, config.latent_channels
        height, width = picture.shape[0] // factor, picture.shape[1] // factor
        # A picture is encoded once: range counts more than speed.
        coder = self._coder("encode", height, width, DType.F32)
        if not self.model.workspace.compile([coder.name], cancelled):
            return None
        tiny = isinstance(config, TinyVaeConfig)
        entering = picture * np.float32(0.5) + np.float32(0.5) if tiny else picture

        def tile(rows: slice, columns: slice) -> Floats:
            return self._run(coder, entering[rows, columns])[..., :channels]

        made = _tiled(tile, (height, width), coder.tile, (factor, 1), _no_tiles, cancelled)
        scale, shift = self._scale()
        return None if made is None else (made - np.float32(shift)) * np.float32(scale)

    def _scale(self) -> tuple[float, float]:
        config = self.model.vae_config
        if isinstance(config, TinyVaeConfig):
            return config.scaling_factor, 0.0
        return config.scaling_factor, config.shift_factor

    def _decoded(self, z: Floats, on_tile: OnTile, cancelled: Cancelled) -> Floats | None:
        coder = self.decoder(z.shape[0], z.shape[1])
        if not self.model.workspace.compile([coder.name], cancelled):
            return None

        def tile(rows: slice, columns: slice) -> Floats:
            return self._run(coder, z[rows, columns])[..., :3]

        factor = self.model.vae_config.factor
        return _tiled(tile, z.shape[:2], coder.tile, (1, factor), on_tile, cancelled)

    def _run(self, coder: Coder, array: Floats) -> Floats:
        device, workspace = self.model.device, self.model.workspace
        entering, leaving = coder.entering, coder.leaving
        write_tensor(device, workspace.store.tensors[entering], entering.tensor, array)
        commands = workspace.program(coder.name).commands
        costs = workspace.registered(coder.name).costs
        most = SUBMIT_SOFTWARE if device.caps.software else SUBMIT_GPU
        for piece in cut(device, commands, costs, most):
            submit(device, [piece])
        made = read_tensor(device, workspace.store.tensors[leaving], leaving.tensor)
        return made[0].astype(np.float32)

    def _coder(self, kind: str, height: int, width: int, dtype: DType) -> Coder:
        """A direction for a size: the whole picture, or halved tiles until one fits."""
        workspace, key = self.model.workspace, (kind, height, width, dtype)
        found = self._coders.get(key)
        if found is not None and found.name in workspace:
            return found
        tile = (height, width)
        while True:
            graph, entering, leaving = self._graph(kind, tile, dtype)
            self.model.bring(silent, never)
            planned = workspace.plan(graph)
            extra = entering.nbytes + leaving.nbytes
            if fits(self.model.device, workspace, [planned[0]], extra, self.memory_limit):
                break
            less = (smaller(tile[0]), smaller(tile[1]))
            if less == tile:
                raise ImageError(
                    "Not even a small part of the picture can be decoded with the memory that is "
                    "free. Close other programs that use the GPU, or choose a smaller model."
                )
            tile = less
        workspace.forget(workspace.names(f"vae.{kind}."))
        name = f"vae.{kind}.{tile[0]}x{tile[1]}.{dtype.value}"
        workspace.register(name, graph, planned)
        self._coders[key] = Coder(name, entering, leaving, tile)
        return self._coders[key]

    def _graph(self, kind: str, tile: tuple[int, int], dtype: DType) -> tuple[Graph, Value, Value]:
        config, weights = self.model.vae_config, self.model.vae
        if kind == "decode":
            return build_decoder(config, weights, (1, *tile), dtype)
        factor = config.factor
        return build_encoder(config, weights, (1, tile[0] * factor, tile[1] * factor), dtype)


def _no_tiles(done: int, total: int) -> None:
    del done, total


def _tiled(
    run: Callable[[slice, slice], Floats],
    whole: tuple[int, ...],
    tile: tuple[int, int],
    factors: tuple[int, int],
    on_tile: OnTile,
    cancelled: Cancelled,
) -> Floats | None:
    """All tiles of a picture, blended; None when cancelled.

    ``whole`` and ``tile`` are in latents; ``factors`` say how many pixels stand for a latent in
    what goes in and in what comes out.
    """
    height, width = whole[:2]
    corners = list(places(height, width, tile))
    out: Floats | None = None
    total = np.zeros((1, 1, 1), np.float32)
    for index, (y, x) in enumerate(corners):
        if cancelled():
            return None
        read, written = (
            (
                slice(y * factor, (y + tile[0]) * factor),
                slice(x * factor, (x + tile[1]) * factor),
            )
            for factor in factors
        )
        made = run(*read)
        on_tile(index + 1, len(corners))
        if len(corners) == 1:
            return made
        if out is None:
            out = np.zeros((height * factors[1], width * factors[1], made.shape[2]), np.float32)
            total = np.zeros((*out.shape[:2], 1), np.float32)
        part = ramp((y, x), (height, width), tile, factors[1])
        out[written] += made * part
        total[written] += part
    return None if out is None else out / total
