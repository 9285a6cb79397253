"""Templates for models whose file has none, chosen by the control tokens that they have."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

_CHATML = """\
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

_LLAMA3 = """\
{{- bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
{{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""

# Gemma has no system role: its text goes in front of the first question.
_GEMMA = """\
{{- bos_token }}
{%- set ns = namespace(system='') %}
{%- for message in messages %}
{%- if message['role'] == 'system' %}
{%- set ns.system = ns.system + message['content'] | trim + '\\n\\n' %}
{%- else %}
{{- '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' }}
{{- ns.system + message['content'] | trim + '<end_of_turn>\\n' }}
{%- set ns.system = '' %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

_PHI3 = """\
{%- for message in messages %}
{{- '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"""

_ZEPHYR = """\
{%- for message in messages %}
{{- '<|' + message['role'] + '|>\\n' + message['content'] + eos_token + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"""

# Llama 2 and Mistral: instructions in brackets, the system text inside the first of them.
_INST = """\
{{- bos_token }}
{%- set ns = namespace(system='') %}
{%- for message in messages %}
{%- if message['role'] == 'system' %}
{%- set ns.system = ns.system + SYSTEM %}
{%- elif message['role'] == 'user' %}
{{- '[INST] ' + ns.system + message['content'] | trim + ' [/INST]' }}
{%- set ns.system = '' %}
{%- else %}
{{- ' ' + message['content'] | trim + ' ' + eos_token }}
{%- endif %}
{%- endfor %}"""
_LLAMA2 = _INST.replace("SYSTEM", "'<<SYS>>\\n' + message['content'] + '\\n<</SYS>>\\n\\n'")
_MISTRAL = _INST.replace("SYSTEM", "message['content'] + '\\n\\n'")


@dataclass(frozen=True)
class Fallback:
    """A template, its name for the person, and stop strings where no token ends an answer."""

    name: str
    source: str
    stops: tuple[str, ...] = ()


def choose_fallback(tokens: Collection[str], architecture: str, name: str) -> Fallback:
    """The template that fits a model with these control ``tokens``.

    ``architecture`` and ``name`` are the file's own words; the name decides only where tokens do
    not.
    """
    by_tokens = (
        (("<|im_start|>", "<|im_end|>"), Fallback("ChatML", _CHATML)),
        (("<|start_header_id|>", "<|eot_id|>"), Fallback("Llama 3", _LLAMA3)),
        (("<start_of_turn>", "<end_of_turn>"), Fallback("Gemma", _GEMMA)),
        (("<|user|>", "<|assistant|>", "<|end|>"), Fallback("Phi 3", _PHI3)),
        (("<|user|>", "<|assistant|>"), Fallback("Zephyr", _ZEPHYR)),
        (("[INST]", "[/INST]"), Fallback("Mistral", _MISTRAL)),
    )
    for needed, fallback in by_tokens:
        if all(token in tokens for token in needed):
            return fallback
    called = name.lower()
    if "mistral" in called or "mixtral" in called:
        return Fallback("Mistral", _MISTRAL)
    if architecture == "llama" and ("llama-2" in called or "llama 2" in called):
        return Fallback("Llama 2", _LLAMA2)
    return Fallback("ChatML", _CHATML, stops=("<|im_end|>", "<|im_start|>"))
