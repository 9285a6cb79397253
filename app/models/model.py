"""The models of the page as plain data, read from the worker's ``models_list``. No Qt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.memory.model import MemoryState
from app.memory.units import count, exact_bytes, size, tokens
from app.models.fit import FitLine, Level, Need, Room, broken_line, fit_line, loaded_line

Fields = Mapping[str, object]
MODEL_ENDINGS = frozenset({".gguf", ".safetensors"})


@dataclass(frozen=True)
class ModelCard:
    """One installed model."""

    name: str
    path: str
    nbytes: int
    kind: str
    family: str
    quant: str
    licence: str
    parameters: int
    context_max: int
    title: str
    need: Need | None
    loaded: bool
    loaded_context: int  # tokens it was loaded with, 0 where that is not known
    problem: str | None

    @property
    def chips(self) -> tuple[str, ...]:
        """The small words under the title."""
        words = [kind_word(self.kind), self.family, self.quant]
        if self.context_max:
            words.append(f"{tokens(self.context_max)} context")
        return tuple(word for word in words if word)


@dataclass(frozen=True)
class CatalogueCard:
    """One tested model that can be had."""

    name: str
    title: str
    family: str
    kind: str
    quant: str
    nbytes: int
    licence: str
    context: int
    description: str
    parameters: int
    source: str
    gated: bool
    installed: bool
    need: Need | None

    @property
    def chips(self) -> tuple[str, ...]:
        """The small words under the title."""
        words = [kind_word(self.kind), parameters_word(self.parameters), self.quant]
        if self.context:
            words.append(f"{tokens(self.context)} context")
        return tuple(word for word in words if word)


@dataclass(frozen=True)
class ModelsState:
    """All that ``models_list`` told."""

    models: tuple[ModelCard, ...] = ()
    catalogue: tuple[CatalogueCard, ...] = ()
    folder: str = ""
    free_bytes: int | None = None

    @property
    def used_bytes(self) -> int:
        """Bytes of every installed model on the disk."""
        return sum(model.nbytes for model in self.models)

    @property
    def loaded(self) -> ModelCard | None:
        """The model on the GPU, if any."""
        return next((model for model in self.models if model.loaded), None)

    def entry(self, name: str) -> CatalogueCard | None:
        """The catalogue entry of this name."""
        return next((card for card in self.catalogue if card.name == name), None)

    def model(self, name: str) -> ModelCard | None:
        """The installed model of this name."""
        return next((card for card in self.models if card.name == name), None)

    @property
    def starter(self) -> CatalogueCard | None:
        """The smallest entry of the catalogue: the one button of an empty page gets it."""
        return min(self.catalogue, key=lambda card: card.nbytes, default=None)


def state_from(fields: Fields) -> ModelsState:
    """Read the ``done`` of ``models_list``; unknown fields are ignored, missing ones empty."""
    raw_models = _dicts(fields.get("models"))
    raw_catalogue = _dicts(fields.get("catalogue"))
    names = {str(entry.get("name")) for entry in raw_models}
    titles = {str(entry.get("name")): _text(entry, "title") for entry in raw_catalogue}
    models = sorted(
        (model_from(entry, titles.get(str(entry.get("name")), "")) for entry in raw_models),
        key=lambda card: (not card.loaded, bool(card.problem), card.title.casefold()),
    )
    catalogue = [catalogue_from(entry, _text(entry, "name") in names) for entry in raw_catalogue]
    free = fields.get("free_bytes")
    return ModelsState(
        tuple(models),
        tuple(sorted(catalogue, key=lambda card: card.nbytes)),
        _text(fields, "folder"),
        int(free) if isinstance(free, int | float) else None,
    )


def model_from(fields: Fields, title: str = "") -> ModelCard:
    """Read one installed model of the protocol."""
    context_max = _number(fields, "context")
    name = _text(fields, "name")
    problem = _text(fields, "problem")
    return ModelCard(
        name=name,
        path=_text(fields, "path"),
        nbytes=_number(fields, "bytes"),
        kind=_text(fields, "kind") or "text",
        family=_text(fields, "family"),
        quant=_text(fields, "quant"),
        licence=_text(fields, "licence"),
        parameters=_number(fields, "parameters"),
        context_max=context_max,
        title=_text(fields, "title") or title or title_from(name),
        need=need_from(fields, context_max),
        loaded=bool(fields.get("loaded", False)),
        loaded_context=_number(fields, "loaded_context"),
        problem=problem or None,
    )


def catalogue_from(fields: Fields, installed: bool) -> CatalogueCard:
    """Read one catalogue entry of the protocol."""
    context = _number(fields, "context")
    return CatalogueCard(
        name=_text(fields, "name"),
        title=_text(fields, "title") or title_from(_text(fields, "name")),
        family=_text(fields, "family"),
        kind=_text(fields, "kind") or "text",
        quant=_text(fields, "quant"),
        nbytes=_number(fields, "bytes"),
        licence=_text(fields, "licence"),
        context=context,
        description=_text(fields, "description"),
        parameters=_number(fields, "parameters"),
        source=_text(fields, "source"),
        gated=bool(fields.get("gated", False)),
        installed=installed or bool(fields.get("installed", False)),
        need=need_from(fields, context),
    )


def need_from(fields: Fields, context_max: int) -> Need | None:
    """What a load needs: the total at the default context, split where the parts are told."""
    total = _number(fields, "need_bytes")
    weights = _number(fields, "weight_bytes")
    per_token = _number(fields, "kv_bytes_per_token")
    activations = _number(fields, "activation_bytes")
    if not total:
        return None
    if not per_token:
        return Need(total, 0, 0, context_max)
    if not weights:  # the catalogue tells the file's size only; what is left is scratch space
        weights = min(_number(fields, "bytes"), total)
        room = max(0, total - weights)
        context = min(room // per_token, context_max or room // per_token)
        return Need(weights, context * per_token, room - context * per_token, context)
    cache = max(0, total - weights - activations)
    return Need(weights, cache, total - weights - cache, cache // per_token)


def fit_of(
    card: ModelCard, state: ModelsState, memory: MemoryState, headroom: int, wanted: int = 0
) -> FitLine:
    """The fit line of an installed model under the memory as it is now.

    ``wanted`` is the context of the settings in tokens, 0 for the usual one.
    """
    if card.problem:
        return broken_line(card.problem)
    if card.loaded:
        return loaded_line(memory.total, card.loaded_context, card.context_max)
    smaller = any(
        other.nbytes < card.nbytes and not other.problem
        for other in state.models
        if other.name != card.name
    )
    need = need_at(card.need, wanted, card.context_max)
    return fit_line(need, room_of(memory, headroom), smaller_exists=smaller)


def fit_of_entry(
    card: CatalogueCard, memory: MemoryState, headroom: int, wanted: int = 0
) -> FitLine:
    """The fit line of a model that is not here yet."""
    if card.need is None:
        return FitLine(Level.UNKNOWN, f"{size(card.nbytes)} to download")
    return fit_line(need_at(card.need, wanted, card.context), room_of(memory, headroom))


def need_at(need: Need | None, wanted: int, context_max: int) -> Need | None:
    """The need at the context of the settings, which is never longer than the model's own."""
    if need is None or not wanted:
        return need
    return need.with_context(min(wanted, context_max or wanted))


def room_of(memory: MemoryState, headroom: int) -> Room:
    """What a next load may take: the free memory, and what the loaded model gives back."""
    return Room(memory.free, memory.total, headroom)


def search(models: Iterable[ModelCard], words: str) -> tuple[ModelCard, ...]:
    """The models that have every word somewhere in title, name, family, quantisation, licence."""
    wanted = words.casefold().split()
    return tuple(
        model
        for model in models
        if all(
            word
            in f"{model.title} {model.name} {model.family} {model.quant} {model.licence}".casefold()
            for word in wanted
        )
    )


def removal_words(card: ModelCard) -> str:
    """What the question before a removal says: the file by name, and the bytes it frees."""
    words = f"This deletes {card.path or card.name} and frees {exact_bytes(card.nbytes)}."
    return f"{words} It is loaded now and will be unloaded first." if card.loaded else words


def detail_rows(card: ModelCard) -> tuple[tuple[str, str], ...]:
    """The rows of the details dialog."""
    rows = [
        ("Name", card.name),
        ("File", card.path),
        ("Size", exact_bytes(card.nbytes)),
        ("Family", card.family),
        ("Parameters", parameters_word(card.parameters)),
        ("Quantisation", card.quant),
        ("Licence", card.licence or "not stated in the file"),
        ("Longest context", f"{count(card.context_max)} tokens" if card.context_max else ""),
    ]
    if card.need and card.need.kv_cache:
        cache = f"{size(card.need.kv_cache)} at {count(card.need.context)} tokens"
        rows += [
            ("Weights in memory", size(card.need.weights)),
            ("KV cache", cache),
            ("Activations", size(card.need.activations)),
        ]
    elif card.need and not card.problem:
        rows.append(("Needs in memory", size(card.need.total)))
    return tuple((label, value) for label, value in rows if value)


def disk_words(state: ModelsState) -> str:
    """``14.2 GiB used · 212 GiB free`` for the head of the page."""
    used = f"{size(state.used_bytes)} used" if state.models else ""
    free = "" if state.free_bytes is None else f"{size(state.free_bytes)} free"
    return " · ".join(part for part in (used, free) if part)


def kind_word(kind: str) -> str:
    """What a model is for, in the person's word."""
    return {"text": "chat", "image": "pictures", "base": "continues text"}.get(kind, kind)


def parameters_word(parameters: int) -> str:
    """``135M`` or ``3.2B`` weights."""
    if parameters >= 10**9:
        return f"{parameters / 10**9:.1f}B"
    return f"{parameters / 10**6:.0f}M" if parameters >= 10**6 else ""


def title_from(name: str) -> str:
    """A readable title from a file-like name."""
    stem = name.removesuffix(".gguf").replace("_", " ").replace("-", " ").strip()
    return stem[:1].upper() + stem[1:] if stem else "Unnamed model"


def file_problem(path: str) -> str | None:
    """Why a chosen or dropped file cannot even be tried, or None. The worker looks inside.

    What has no ending may be a folder of a picture model, which is the worker's to tell.
    """
    name = path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    stem, dot, ending = name.rpartition(".")
    if not stem or not dot or f".{ending.casefold()}" in MODEL_ENDINGS:
        return None
    if ending.casefold() in ("ckpt", "pt", "pth", "bin"):
        return (
            f"“{name}” may run programs when it is opened, so it is not read: "
            "look for a file of the same model that ends in .safetensors or .gguf."
        )
    return f"“{name}” is not a model file. Choose one that ends in .gguf or .safetensors."


def _dicts(value: object) -> Sequence[Fields]:
    if not isinstance(value, list | tuple):
        return ()
    return [entry for entry in value if isinstance(entry, Mapping)]


def _text(fields: Fields, key: str) -> str:
    value = fields.get(key)
    return value.strip() if isinstance(value, str) else ""


def _number(fields: Fields, key: str) -> int:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return max(0, int(value))
