"""Make templates.json: chat templates of the usual forms, and how `transformers` renders them.

Needs `transformers` and `tokenizers`, no torch. Run: python make_templates.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

HERE = Path(__file__).parent

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)

LLAMA3 = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}{{- "Environment: ipython\\n" }}{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- system ~ "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate: user, assistant, user, and so on.') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}"
    "{% endif %}{% endfor %}"
)

MISTRAL = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if not message.tool_calls is defined %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("Only user and assistant roles, alternating, please.") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] | trim + eos_token }}
    {%- else %}
        {{- raise_exception("Unknown role " + message["role"]) }}
    {%- endif %}
{%- endfor %}
"""

GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}"
    "{% else %}{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)

# Looks into answers, as templates of models that think aloud do, and keeps only the conclusion.
THINKING = """\
{%- set ns = namespace(last=-1) %}
{%- for message in messages %}
    {%- if message.role == "user" %}{%- set ns.last = loop.index0 %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}
    {%- else %}{%- set content = '' %}{%- endif %}
    {%- if message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1] %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and reasoning %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') }}
            {{- '\\n</think>\\n\\n' }}
            {{- content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

# Everything that the environment adds to plain Jinja, once.
FEATURES = """\
{% for message in messages %}
    {% if message.role == 'system' %}
        {% continue %}
    {% endif %}
{{ loop.index }}/{{ loop.length }} {{ message | tojson }}
    {% generation %}
{{ message.content | upper | replace("A", "4") | indent(2) }}
    {% endgeneration %}
    {% if loop.index > 2 %}{% break %}{% endif %}
{% endfor %}
{% macro twice(text) %}{{ text ~ ', ' ~ text }}{% endmacro %}
{{ twice(messages | map(attribute='role') | join('+')) }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} of {{ messages | count }}
{{ {'b': [1, 2.5, none, true], 'a': "é<&>'"} | tojson(indent=2) }}
{{ '%s has %d' % (bos_token, 3) }} {{ strftime_now('%Y') | length }} {{ unknown_thing }}
{% set items = dict(x=1).items() | list %}{{ items }} {{ (1, 2)[::-1] }} {{ 2 ** 10 }}
"""

TEMPLATES: dict[str, tuple[str, str | None, str]] = {
    "smollm2": (SMOLLM2, "<|im_start|>", "<|im_end|>"),
    "llama3": (LLAMA3, "<|begin_of_text|>", "<|eot_id|>"),
    "llama2": (LLAMA2, "<s>", "</s>"),
    "mistral": (MISTRAL, "<s>", "</s>"),
    "gemma": (GEMMA, "<bos>", "<eos>"),
    "thinking": (THINKING, None, "<|im_end|>"),
    "features": (FEATURES, "<s>", "</s>"),
}

ODD = "  What's up?\n\n  Tab\there, café 👩‍🚀 {{ braces }} {% raw %}\n "
USER = {"role": "user", "content": ODD}
ANSWER = {"role": "assistant", "content": "\n<think>\nHm, a < b.\n</think>\n\nNot much. \n"}
SYSTEM = {"role": "system", "content": " Be brief.\n"}
AGAIN = {"role": "user", "content": "And now?"}
CONVERSATIONS: list[list[dict[str, str]]] = [
    [AGAIN],
    [USER],
    [SYSTEM, USER],
    [USER, ANSWER, AGAIN],
    [SYSTEM, USER, ANSWER, AGAIN, ANSWER],
    [AGAIN, USER],
    [USER, {"role": "tool", "content": "42"}],
]


def render(source: str, bos: str | None, eos: str, messages: Any, prompt: bool) -> dict[str, Any]:
    """What `transformers` makes of a conversation: a text, or a refusal."""
    names = {"eos_token": eos} | ({} if bos is None else {"bos_token": bos})
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **names)
    tokenizer.chat_template = source
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)
    except jinja2.TemplateError as refusal:
        return {"refusal": str(refusal)}
    return {"text": text}


def main() -> None:
    """Write templates.json."""
    golden = [
        {
            "name": name,
            "source": source,
            "bos": bos,
            "eos": eos,
            "cases": [
                {"messages": messages, "prompt": prompt}
                | render(source, bos, eos, messages, prompt)
                for messages in CONVERSATIONS
                for prompt in (True, False)
            ],
        }
        for name, (source, bos, eos) in TEMPLATES.items()
    ]
    (HERE / "templates.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
