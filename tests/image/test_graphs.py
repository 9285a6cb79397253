"""Each network's graph, computed in numpy, gives what diffusers gives."""

from __future__ import annotations

import numpy as np
import pytest
from image.goldens import Golden, close, golden
from image.networks import UNETS, UNetCase, text_inputs, unet_case
from image.reference import run

from engine.formats.diffusers_configs import (
    read_text_config,
    read_tiny_vae_config,
    read_unet_config,
    read_vae_config,
)
from engine.image.clip import build_text
from engine.image.vae import build_decoder, build_encoder
from engine.tensor.descriptor import DType

SMALL = 2e-5


@pytest.mark.parametrize("name", ["text-vitl", "text-openclip", "text-bigg"])
@pytest.mark.parametrize("skip", [0, 1])
def test_text_encoders_give_the_hidden_states_of_any_depth(name: str, skip: int) -> None:
    case = golden(name, read_text_config, projected=name == "text-bigg")
    graph = build_text(case.config, case.weights, 2, skip=skip, normed=False)
    values = run(graph.graph, case.weights, text_inputs(graph, case))
    close(values[graph.hidden], case.expected[f"hidden_{case.config.layers - skip}"], SMALL)


def test_text_encoders_norm_the_last_hidden_state() -> None:
    case = golden("text-vitl", read_text_config)
    graph = build_text(case.config, case.weights, 2)
    values = run(graph.graph, case.weights, text_inputs(graph, case))
    close(values[graph.hidden], case.expected["last_hidden_state"], SMALL)
    assert graph.projected is None


def test_the_projected_row_at_the_end_token_is_the_pooled_text() -> None:
    case = golden("text-bigg", read_text_config, projected=True)
    graph = build_text(case.config, case.weights, 2, skip=1, normed=False)
    values = run(graph.graph, case.weights, text_inputs(graph, case))
    assert graph.projected is not None
    rows = values[graph.projected].reshape(2, case.config.positions, -1)
    ends = np.argmax(case.expected["tokens"] == 100, axis=1)
    close(rows[np.arange(2), ends], case.expected["pooled"], SMALL)


def predicted(case: Golden, graphs: UNetCase) -> np.ndarray:
    """The prediction of a denoiser, computed in numpy."""
    text = case.expected["text"][: graphs.out.tensor.shape.b]
    keys = run(graphs.context.graph, case.weights, {graphs.context.text: text})
    inputs = graphs.inputs | {
        value: keys[graphs.context.keys[label]] for label, value in graphs.keys.items()
    }
    return run(graphs.graph, case.weights, inputs)[graphs.out]


@pytest.mark.parametrize("name", UNETS)
@pytest.mark.parametrize("step", [981, 20])
def test_denoisers_predict_what_diffusers_predicts(name: str, step: int) -> None:
    case = golden(name, read_unet_config)
    have = predicted(case, unet_case(case, step, DType.F32))
    close(have, case.nhwc(f"out_{step}"), SMALL)


def test_sizes_that_do_not_halve_evenly_come_back_to_themselves() -> None:
    case = golden("unet-sd1", read_unet_config)
    have = predicted(case, unet_case(case, 500, DType.F32, "odd_latents"))
    close(have, case.nhwc("odd_out"), SMALL)


def test_the_autoencoder_decodes_and_encodes() -> None:
    case = golden("vae-kl", read_vae_config)
    graph, z, picture = build_decoder(case.config, case.weights, (2, 12, 8), DType.F32)
    close(run(graph, case.weights, {z: case.nhwc("latents")})[picture], case.nhwc("decoded"), SMALL)
    graph, picture, moments = build_encoder(case.config, case.weights, (2, 24, 16), DType.F32)
    values = run(graph, case.weights, {picture: case.nhwc("pictures")})
    close(values[moments], case.nhwc("moments"), SMALL)


def test_the_tiny_autoencoder_decodes_and_encodes() -> None:
    case = golden("vae-tiny", read_tiny_vae_config)
    graph, z, picture = build_decoder(case.config, case.weights, (2, 6, 4), DType.F32)
    close(run(graph, case.weights, {z: case.nhwc("latents")})[picture], case.nhwc("decoded"), SMALL)
    graph, picture, moments = build_encoder(case.config, case.weights, (2, 24, 16), DType.F32)
    values = run(graph, case.weights, {picture: case.nhwc("pictures") / 2 + 0.5})
    close(values[moments], case.nhwc("encoded"), SMALL)


def test_what_no_graph_asks_for_is_not_uploaded() -> None:
    case = golden("vae-kl", read_vae_config)
    build_decoder(case.config, case.weights, (1, 4, 4), DType.F32)
    names = [name for recipe in case.weights.recipes.values() for name in recipe.names]
    assert not [name for name in names if name.startswith(("encoder.", "quant_conv"))]
