"""The GPU sampler chooses what the numpy reference chooses, and moves the run state on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from kernels.kernel_nodes import make_node, rows_of, value

from engine.gpu.commands import CommandList, submit
from engine.gpu.device import Device
from engine.gpu.ledger import Purpose
from engine.graph.node import GraphError, Role, Value
from engine.kernels import sample
from engine.kernels import state as run_state
from engine.kernels.run import Store, allocate, free_store, prepare, read_tensor, write_tensor
from engine.tensor.descriptor import DType, Shape, TensorDesc
from engine.text.sampling import (
    HISTORY_WINDOW,
    Sampling,
    count_history,
    gumbel,
    random_u32,
    sample_reference,
)


def words(name: str, count: int, role: Role = Role.STATE) -> Value:
    """A buffer of u32."""
    return value(name, TensorDesc(Shape(c=count), DType.U32), role)


@dataclass
class Machine:
    """A sampler bound once, as a loaded model has it, whose inputs can be changed."""

    device: Device
    parts: dict[str, Value]
    store: Store
    commands: CommandList

    def write(self, part: str, data: np.ndarray) -> None:
        """Set one input."""
        target = self.parts[part]
        write_tensor(self.device, self.store.tensors[target], target.tensor, data)

    def read(self, part: str) -> np.ndarray:
        """One buffer's words."""
        target = self.parts[part]
        return read_tensor(self.device, self.store.tensors[target], target.tensor).reshape(-1)

    def set_up(self, sampling: Sampling, history: Any = (), **state: int) -> None:
        """Settings, history and state as the host sets them before a generation."""
        seed = 0 if sampling.seed is None else sampling.seed
        vocabulary = self.parts["logits"].tensor.shape.c
        past, recent = run_state.pack_history(list(history), vocabulary)
        self.write("history", past)
        self.write("params", pack(sampling))
        self.write("state", run_state.pack_state(seed=seed, recent=recent, **state))

    def step(self) -> int:
        """Run once; the token that was chosen."""
        submit(self.device, [self.commands])
        return int(self.read("state")[run_state.TOKEN])


def pack(sampling: Sampling) -> np.ndarray:
    """The settings' words."""
    return run_state.pack_params(
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
    )


def machine(device: Device, vocabulary: int, variant: int = 0, **attrs: Any) -> Machine:
    """A sampler over a vocabulary, with stop tokens and a ring of 8."""
    parts = {
        "logits": value("logits", rows_of(1, vocabulary), Role.OUTPUT),
        "history": words("history", run_state.history_words(vocabulary)),
        "params": words("params", run_state.PARAM_WORDS, Role.INPUT),
        "state": words("state", run_state.WORDS),
        "stops": words("stops", run_state.STOP_WORDS, Role.INPUT),
        "ring": words("ring", 8),
    }
    node = make_node("sample", parts, [], **attrs)
    dispatches = list(sample.variants(node, device.caps).values())[variant]
    store = Store()
    for dispatch in dispatches:
        for bind in dispatch.binds:
            if bind.value not in store.tensors:
                store.tensors[bind.value] = allocate(device, bind.value.tensor, Purpose.OTHER)
    return Machine(device, parts, store, prepare(device, dispatches, store))


def noise(vocabulary: int, seed: int, spread: float = 3.0) -> np.ndarray:
    """Logits like a model's: most low, a few high."""
    return np.random.default_rng(seed).normal(0, spread, vocabulary).astype(np.float32)


GREEDY = Sampling(temperature=0.0)
OFF = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
SETTINGS = {
    "defaults": Sampling(),
    "off": OFF,
    "top_k": replace(OFF, top_k=5),
    "top_k_1": replace(OFF, top_k=1),
    "top_k_beyond_segments": replace(OFF, top_k=300),
    "top_k_beyond_vocabulary": replace(OFF, top_k=100000),
    "top_p": replace(OFF, top_p=0.9),
    "top_p_tiny": replace(OFF, top_p=0.01),
    "top_p_most": replace(OFF, top_p=0.9999),
    "min_p": replace(OFF, min_p=0.1),
    "min_p_1": replace(OFF, min_p=1.0),
    "top_p_min_p": replace(OFF, top_p=0.8, min_p=0.02),
    "top_k_min_p": replace(OFF, top_k=20, min_p=0.2),
    "hot": replace(OFF, temperature=5.0, top_k=50),
    "cold": replace(OFF, temperature=0.1, top_k=300, top_p=0.95),
}
PENALTIES = {
    "repetition": replace(OFF, top_k=20, repetition_penalty=1.5),
    "presence": replace(OFF, top_p=0.9, presence_penalty=1.5),
    "frequency": replace(OFF, min_p=0.05, frequency_penalty=0.7),
    "all": Sampling(repetition_penalty=1.2, presence_penalty=0.5, frequency_penalty=0.3),
    "encouraged": replace(OFF, top_k=9, repetition_penalty=0.5, presence_penalty=-1.0),
    "greedy": replace(GREEDY, repetition_penalty=3.0),
}


def check(
    device: Device,
    sampling: Sampling,
    vocabulary: int,
    rounds: int,
    past: int = 0,
    variants: tuple[int, ...] = (0,),
) -> None:
    """Token by token the same as the reference."""
    for variant in variants:
        have = machine(device, vocabulary, variant)
        try:
            for seed in range(rounds):
                one = replace(sampling, seed=seed * 7919)
                logits = noise(vocabulary, seed)
                history = np.argsort(logits)[::-1][: 3 * past : 3].tolist() if past else []
                history += history[: past // 2]
                have.set_up(one, history, counter=seed)
                have.write("logits", logits)
                counts = count_history(history, vocabulary)
                assert have.step() == sample_reference(logits, counts, one, seed)
        finally:
            free_store(have.store)


@pytest.mark.parametrize("name", SETTINGS)
def test_chooses_what_the_reference_chooses(full: Device, name: str) -> None:
    check(full, SETTINGS[name], 1003, 12, variants=(0, 1))


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties(full: Device, name: str) -> None:
    check(full, PENALTIES[name], 1003, 8, past=20)


def test_devices(device: Device) -> None:
    check(device, Sampling(), 1003, 6, variants=(0, 1))


@pytest.mark.parametrize("vocabulary", [1, 5, 64, 40001])
def test_vocabularies(full: Device, vocabulary: int) -> None:
    check(full, Sampling(), vocabulary, 3)
    check(full, GREEDY, vocabulary, 3)


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(), replace(OFF, top_k=3)], ids=str)
def test_equal_logits(full: Device, sampling: Sampling) -> None:
    """Ties stay or go together; greedy takes the lowest id."""
    have = machine(full, 300)
    logits = np.zeros(300, np.float32)
    logits[[40, 41, 90, 200]] = 2.0
    logits[7], logits[8] = 0.0, -0.0
    have.write("logits", logits)
    for seed in range(20):
        have.set_up(replace(sampling, seed=seed))
        assert have.step() == sample_reference(logits, None, replace(sampling, seed=seed), 0)


def test_broken_logits_are_never_chosen(full: Device) -> None:
    have = machine(full, 300)
    logits = noise(300, 3)
    logits[[5, 50]] = np.nan
    logits[6] = -np.inf
    have.write("logits", logits)
    for sampling in (GREEDY, replace(Sampling(), seed=4), replace(OFF, seed=5)):
        have.set_up(sampling)
        assert have.step() == sample_reference(logits, None, sampling, 0)


def test_an_infinite_logit_is_chosen(full: Device) -> None:
    have = machine(full, 300)
    logits = noise(300, 3)
    logits[60] = np.inf
    have.write("logits", logits)
    for sampling in (GREEDY, Sampling(seed=1)):
        have.set_up(sampling)
        assert have.step() == 60


def test_generation_moves_the_state_on(full: Device) -> None:
    """Position, counter, ring and history after a prefill of 5 rows and 80 steps."""
    have = machine(full, 300)
    logits = noise(300, 9)
    have.write("logits", logits)
    sampling = replace(OFF, seed=123, presence_penalty=0.2, frequency_penalty=0.1)
    prompt = [1, 2, 3, 3]
    have.set_up(sampling, prompt, position=10, count=5)
    tokens: list[int] = []
    for counter in range(80):
        counts = count_history([*prompt, *tokens], 300)
        tokens.append(have.step())
        assert tokens[-1] == sample_reference(logits, counts, sampling, counter)
    state = have.read("state")
    assert state[run_state.POSITION] == 15 + 79
    assert (state[run_state.COUNT], state[run_state.COUNTER]) == (1, 80)
    assert state[run_state.RING] == 80
    assert have.read("ring").tolist() == tokens[-8:]
    assert have.read("history")[:300].tolist() == count_history(tokens, 300).tolist()


def test_a_stop_token_ends_the_generation(full: Device) -> None:
    have = machine(full, 300)
    logits = noise(300, 9)
    best = int(np.argmax(logits))
    have.write("logits", logits)
    have.write("stops", run_state.pack_stops([3, best]))
    have.set_up(GREEDY)
    assert have.step() == best
    assert have.read("state")[run_state.STOP] == run_state.STOP_TOKEN
    before = have.read("state").tolist()
    have.write("logits", -logits)
    have.step()
    assert have.read("state").tolist() == before


def test_a_full_context_ends_the_generation(full: Device) -> None:
    have = machine(full, 300, sequence_max=12)
    have.write("logits", noise(300, 9))
    have.set_up(GREEDY, position=10)
    have.step()
    assert have.read("state")[run_state.STOP] == 0
    have.step()
    assert have.read("state")[run_state.STOP] == run_state.STOP_CONTEXT


def test_the_distribution_is_the_softmax(full: Device) -> None:
    """Chi-squared of 600 draws over 6 tokens at temperature 1.5 (seeded, so never flaky)."""
    have = machine(full, 6)
    logits = np.array([2.0, 1.0, 0.5, 0.0, -1.0, 1.5], np.float32)
    have.write("logits", logits)
    have.set_up(replace(OFF, temperature=1.5, seed=77))
    counts = np.bincount([have.step() for _ in range(600)], minlength=6)
    expected = np.exp(logits / 1.5) / np.exp(logits / 1.5).sum() * 600
    assert ((counts - expected) ** 2 / expected).sum() < 15.1  # 1 % of chi-squared with 5


def test_random_numbers_repeat_for_a_seed_and_differ_between_seeds() -> None:
    ids = np.arange(1000)
    assert (random_u32(5, 0, ids) == random_u32(5, 0, ids)).all()
    assert len(set(random_u32(5, 0, ids)) & set(random_u32(6, 0, ids))) < 3
    assert abs(float(gumbel(random_u32(5, 0, ids)).mean()) - 0.5772) < 0.15


def test_both_rooms_mean_the_same_window() -> None:
    assert run_state.HISTORY_WINDOW == HISTORY_WINDOW


def test_a_history_of_another_size_is_refused(full: Device) -> None:
    parts = {
        "logits": value("logits", rows_of(1, 50)),
        "history": words("history", 60),
        "params": words("params", run_state.PARAM_WORDS),
        "state": words("state", run_state.WORDS),
    }
    with pytest.raises(GraphError, match="needs 50 words, or 114"):
        sample.lower(make_node("sample", parts, []), full.caps)


def test_too_many_stop_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 31"):
        run_state.pack_stops(range(40))
