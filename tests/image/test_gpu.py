"""The networks on the GPU give what diffusers gives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from image.goldens import close, golden
from image.networks import text_inputs, unet_case

from engine.formats.diffusers_configs import read_text_config, read_unet_config, read_vae_config
from engine.gpu.commands import submit
from engine.gpu.device import Device
from engine.graph.graph import Graph
from engine.graph.node import Value
from engine.image.clip import build_text
from engine.image.runner_workspace import Workspace
from engine.image.vae import build_decoder
from engine.image.weights import NetworkWeights
from engine.image.weights_upload import missing, never, silent, upload
from engine.kernels.run import free_store, read_tensor, write_tensor
from engine.tensor.descriptor import DType

F32 = 1e-5


def compute(
    device: Device,
    graph: Graph,
    weights: NetworkWeights,
    inputs: Mapping[Value, np.ndarray],
    *outputs: Value,
) -> list[np.ndarray]:
    """Outputs of one run on the GPU; everything is given back."""
    workspace = Workspace(device)
    store = workspace.store
    upload(device, missing([weights], store), store, silent, never)
    workspace.register("only", graph)
    for value, array in inputs.items():
        write_tensor(device, store.tensors[value], value.tensor, array)
    submit(device, [workspace.program("only").commands])
    made = [read_tensor(device, store.tensors[out], out.tensor) for out in outputs]
    workspace.drop_arena()
    free_store(store)
    return made


def test_a_text_encoder(device: Device) -> None:
    case = golden("text-bigg", read_text_config, projected=True)
    graph = build_text(case.config, case.weights, 2, skip=1, normed=False)
    (hidden,) = compute(device, graph.graph, case.weights, text_inputs(graph, case), graph.hidden)
    close(hidden, case.expected[f"hidden_{case.config.layers - 1}"], F32)


def test_a_denoiser(device: Device) -> None:
    case = golden("unet-lcm", read_unet_config)
    graphs = unet_case(case, 981, DType.F32)
    context, names = graphs.context, list(graphs.context.keys)
    text = {context.text: case.expected["text"]}
    keys = compute(device, context.graph, case.weights, text, *context.keys.values())
    inputs = graphs.inputs | {graphs.keys[n]: a for n, a in zip(names, keys, strict=True)}
    (out,) = compute(device, graphs.graph, case.weights, inputs, graphs.out)
    close(out, case.nhwc("out_981"), F32)


def test_an_autoencoder_in_16_bits(device: Device) -> None:
    case = golden("vae-kl", read_vae_config)
    graph, z, picture = build_decoder(case.config, case.weights, (2, 12, 8), DType.F16)
    (out,) = compute(device, graph, case.weights, {z: case.nhwc("latents")}, picture)
    close(out, case.nhwc("decoded"), 5e-3)


def test_all_memory_comes_back(device: Device) -> None:
    assert device.ledger.totals().total == 0
