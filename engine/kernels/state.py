"""The run state: a small GPU buffer of u32 words that lengths and the next token live in.

Every token's recorded list is identical because whatever changes from token to token is read from
here. The host writes it before a prefill chunk (:func:`pack_state`); the sampler advances it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

POSITION = 0  #: tokens already in the cache, which is the position of the first new token
COUNT = 1  #: valid tokens of this prefill chunk; 1 in decode
TOKEN = 2  #: the token to feed next
COUNTER = 3  #: random counter: how many tokens this seed has drawn
STOP = 4  #: not 0 once a stop token was drawn or the context is full: the sampler then rests
RING = 5  #: how many tokens were appended to the ring, ever; the next slot is RING % slots
SEED = 6  #: seed of the random numbers
RECENT = 7  #: how many tokens the history has seen, ever; the next slot is RECENT % HISTORY_WINDOW
WORDS = 16  #: words of the buffer, spare ones included

#: Reasons in the STOP word.
STOP_TOKEN = 1
STOP_CONTEXT = 2

#: The sampler's settings, u32 words; those marked f32 hold a float's bits.
TEMPERATURE = 0  # f32; 0 is greedy
TOP_K = 1  # 0 is off
TOP_P = 2  # f32; 1 is off
LOG_MIN_P = 3  # f32, ln(min_p); MIN_P_OFF is off
REPETITION = 4  # f32; 1 is off
PRESENCE = 5  # f32; 0 is off
FREQUENCY = 6  # f32; 0 is off
PARAM_WORDS = 16
MIN_P_OFF = -1e38

#: Tokens back that the penalties look at. The history buffer holds how often each id of the
#: vocabulary occurs among them, then the ids themselves plus one (0: none yet), a ring.
HISTORY_WINDOW = 64

#: Stop tokens: word 0 is how many, then their ids.
STOPS_MAX = 31
STOP_WORDS = 1 + STOPS_MAX

_STATE_NAMES = ("POSITION", "COUNT", "TOKEN", "COUNTER", "STOP", "RING", "SEED", "RECENT")
_PARAM_NAMES = (
    "TEMPERATURE",
    "TOP_K",
    "TOP_P",
    "LOG_MIN_P",
    "REPETITION",
    "PRESENCE",
    "FREQUENCY",
    "STOP_TOKEN",
    "STOP_CONTEXT",
)


def _constants(names: Sequence[str]) -> str:
    return "".join(f"const {name}: u32 = {globals()[name]}u;\n" for name in names)


#: WGSL constants of the state's word offsets, for templates (``{{ state_words }}``).
STATE_WGSL = _constants(_STATE_NAMES)
#: WGSL constants of the settings' word offsets and stop reasons.
PARAM_WGSL = _constants(_PARAM_NAMES)


def pack_state(
    *,
    position: int = 0,
    count: int = 1,
    token: int = 0,
    counter: int = 0,
    stop: int = 0,
    ring: int = 0,
    seed: int = 0,
    recent: int = 0,
) -> np.ndarray:
    """The state buffer's contents, uint32 ``[16]``; the seed is taken modulo 2**32."""
    words = np.zeros(WORDS, np.uint32)
    words[[POSITION, COUNT, TOKEN, COUNTER, STOP, RING]] = (
        position,
        count,
        token,
        counter,
        stop,
        ring,
    )
    words[SEED] = seed & 0xFFFFFFFF
    words[RECENT] = recent
    return words


def pack_params(
    *,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    presence_penalty: float = 0.0,
    frequency_penalty: float = 0.0,
) -> np.ndarray:
    """The sampler settings' buffer, uint32 ``[16]``; the defaults mean greedy, all filters off."""
    floats = np.zeros(PARAM_WORDS, np.float32)
    floats[[TEMPERATURE, TOP_P]] = temperature, top_p
    floats[LOG_MIN_P] = math.log(min_p) if min_p > 0 else MIN_P_OFF
    floats[[REPETITION, PRESENCE, FREQUENCY]] = (
        repetition_penalty,
        presence_penalty,
        frequency_penalty,
    )
    words = floats.view(np.uint32)
    words[TOP_K] = max(top_k, 0)
    return words


def pack_stops(tokens: Sequence[int]) -> np.ndarray:
    """The stop tokens' buffer, uint32 ``[32]``; raises ValueError for more than 31 of them."""
    if len(tokens) > STOPS_MAX:
        raise ValueError(f"The sampler knows at most {STOPS_MAX} stop tokens, not {len(tokens)}.")
    words = np.zeros(STOP_WORDS, np.uint32)
    words[0] = len(tokens)
    words[1 : 1 + len(tokens)] = list(tokens)
    return words


def history_words(vocabulary: int) -> int:
    """Words of the history buffer."""
    return vocabulary + HISTORY_WINDOW


def pack_history(tokens: Sequence[int], vocabulary: int) -> tuple[np.ndarray, int]:
    """The history buffer's contents after ``tokens``, and the state's RECENT word to go with it."""
    words = np.zeros(history_words(vocabulary), np.uint32)
    recent = np.asarray(list(tokens)[-HISTORY_WINDOW:], np.int64)
    words[:vocabulary] = np.bincount(recent, minlength=vocabulary)
    words[vocabulary : vocabulary + len(recent)] = recent + 1
    return words, len(recent)
