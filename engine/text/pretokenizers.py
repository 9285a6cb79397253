"""Pre-tokenizers by name: how a text is cut into words before byte-pair merges run inside them.

GGUF files name the pre-tokenizer of the original model (``tokenizer.ggml.pre``). Each name stands
for a sequence of regular expressions; matches and the gaps between them become separate words.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, pre_tokenizers

_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # one word each
)
_DIGIT = r"\p{N}"
_PUNCTUATION = r"[\p{P}$+<=>^~|`]+"
_CJK = "[一-龥\u3040-\u30ff]+"  # ideographs, Hiragana and Katakana


def _words(digits: str, contraction: str = _CONTRACTION) -> str:
    """The family that began with GPT-4's encoding: a word takes one sign in front of it along."""
    return (
        rf"{contraction}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
    )


def _cased_words(digits: str, suffix: str = "") -> str:
    """The family that also cuts before a capital inside a word (tekken, GPT-4o)."""
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    sign = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{sign}{upper}*{lower}+{suffix}|{sign}{upper}+{lower}*{suffix}|{digits}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
    )


_DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    _CJK,
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}",
)
_CJK_AND_HANGUL = "[一-龥\u0800-一가-\ud7ff]+"
_DEEPSEEK_LLM = (
    r"[\r\n]",
    # Letters that have case, less blocks that the model's own list of letters leaves out.
    r"\s?[\p{Lu}\p{Ll}\p{Lt}&&[^\u0560-\u0588\u10c7-\u10ff\u1c80-\u1c8a\u1fbe\u2d00-\u2d2d"
    r"\ua790-\uab6d\x{10570}-\x{105bc}\x{10d50}-\x{10d85}\x{16e40}-\x{1df96}]]+",
    "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",  # noqa: RUF001 (full-width signs are meant)
    r"\s+$",
    _CJK_AND_HANGUL,
    r"\p{N}+",
)
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK_AND_HANGUL, _DIGIT)
_EXCEPT_STOPS = r" ?[^(\s|.,!?…。，、।۔،)]+"  # noqa: RUF001 (signs of several scripts)
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SEED = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}"
)
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_DEFAULT = (r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")


@dataclass(frozen=True)
class Recipe:
    """One way to cut text into words.

    Attributes:
        name: its name in ``tokenizer.ggml.pre``.
        patterns: regular expressions (Oniguruma), applied one after the other.
        whole_words: a word that is a token is taken as it is, without looking at merges.
        add_bos: whether such models want a beginning token when the file does not say.
        warning: what to tell the person when the recipe is only a guess.
    """

    name: str
    patterns: tuple[str, ...]
    whole_words: bool = False
    add_bos: bool = False
    warning: str = ""


def _recipes() -> dict[str, Recipe]:
    groups: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("default", _DEFAULT),
        (
            "gpt-2 phi-2 mpt olmo jais trillion granite-docling exaone4 gigachat a.x-4.0 mellum"
            " modern-bert roberta-bpe jina-es jina-de jina-v2-es jina-v2-de jina-v1-en"
            " jina-v2-code",
            (_GPT2,),
        ),
        ("smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", (_DIGIT, _GPT2)),
        ("falcon", (_PUNCTUATION, _GPT2, "[0-9][0-9][0-9]")),
        ("dbrx smaug-bpe glm4 chatglm-bpe", (_words(r"\p{N}{1,3}"),)),
        (
            "qwen2 stablelm2 hunyuan solar-open deepseek-r1-qwen kormo f2llmv2 megrez grok-2",
            (_words(_DIGIT),),
        ),
        ("qwen35", (_QWEN35,)),
        (
            "gpt-4o llama4 kanana2 talkie minimax-m2",
            (_cased_words(r"\p{N}{1,3}", _CONTRACTION + "?"),),
        ),
        ("deepseek-llm", _DEEPSEEK_LLM),
        ("deepseek-coder", _DEEPSEEK_CODER),
        ("deepseek-v3 hunyuan-dense joyai-llm", _DEEPSEEK_V3),
        ("poro-chat bloom gpt3-finnish", (_EXCEPT_STOPS,)),
        ("viking", (_EXCEPT_STOPS, _DIGIT)),
        ("bailingmoe bailingmoe2 llada-moe", (_BAILING,)),
        ("seed-coder", (_SEED,)),
    )
    table = {name: Recipe(name, parts) for names, parts in groups for name in names.split()}
    llama3 = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano"
    for name in llama3.split():
        table[name] = Recipe(name, (_words(r"\p{N}{1,3}"),), whole_words=True, add_bos=True)
    table["tekken"] = Recipe("tekken", (_cased_words(_DIGIT),), whole_words=True, add_bos=True)
    return table


_RECIPES = _recipes()


def known_names() -> frozenset[str]:
    """Every name that has a recipe of its own."""
    return frozenset(_RECIPES)


def recipe_for(name: str | None) -> Recipe:
    """The recipe of that name; the default one, with a warning, for no name or an unknown name."""
    if name in _RECIPES:
        return _RECIPES[name]
    default = _RECIPES["default"]
    said = "does not name its pre-tokenizer" if not name else f"asks for pre-tokenizer {name!r}"
    known = "" if not name else ", which Driftwood does not know"
    return Recipe(
        default.name,
        default.patterns,
        warning=f"The model {said}{known}; a general one is used instead, and answers may suffer.",
    )


def build(recipe: Recipe) -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer object for a byte-level model."""
    splits: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in recipe.patterns
    ]
    splits.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    return pre_tokenizers.Sequence(splits)
