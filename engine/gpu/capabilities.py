"""What a device can do, as one value that every later decision reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Techniques that can be switched off by name, to test the slower way or to measure one's worth.
SWITCHES = frozenset(
    {"f16", "subgroups", "matrix", "dp4a", "fusion", "planner", "tuning", "limits"}
)


@dataclass(frozen=True)
class MatrixShape:
    """One subgroup-matrix shape: an ``m x k`` by ``k x n`` product of ``input`` into ``output``."""

    m: int
    n: int
    k: int
    input: str
    output: str


@dataclass(frozen=True)
class Limits:
    """The limits that our kernels run into. Bytes, or counts."""

    storage_buffers: int = 8
    binding_bytes: int = 128 << 20
    buffer_bytes: int = 256 << 20
    workgroup_bytes: int = 16 << 10
    invocations: int = 256
    workgroup_x: int = 256
    workgroups: int = 65535
    offset_alignment: int = 256
    texture_2d: int = 8192
    texture_layers: int = 256


@dataclass(frozen=True)
class Capabilities:
    """One adapter, driver and back end: its features as probed, not as advertised."""

    backend: str  # "wgpu" or "dawn"
    api: str  # "Vulkan", "Metal", "D3D12"
    device: str
    driver: str
    vendor: str
    kind: str  # "discrete", "integrated", "software", "unknown"
    library: str
    f16: bool
    subgroups: bool
    subgroup_min: int
    subgroup_max: int
    dp4a: bool
    matrix: tuple[MatrixShape, ...]
    timestamps: bool
    unified_memory: bool
    limits: Limits
    without: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()  # variants that failed the self-test here

    def allows(self, family: str, variant: str) -> bool:
        """Whether a kernel variant passed the self-test on this adapter and driver."""
        return f"{family}/{variant}" not in self.excluded

    @property
    def software(self) -> bool:
        """True where shaders run on the CPU."""
        return self.kind == "software"

    @property
    def subgroup(self) -> int:
        """The one subgroup size that kernels may rely on, or 0 where there is none."""
        fixed = self.subgroups and self.subgroup_min == self.subgroup_max
        return self.subgroup_min if fixed else 0

    @property
    def key(self) -> str:
        """Names adapter, driver and library: what a tuning or self-test result is valid for."""
        return f"{self.backend} {self.library}|{self.api}|{self.device}|{self.driver}"

    def switched(self, without: frozenset[str]) -> Capabilities:
        """The same device with techniques switched off by name (see :data:`SWITCHES`)."""
        unknown = without - SWITCHES
        if unknown:
            names, known = ", ".join(sorted(unknown)), ", ".join(sorted(SWITCHES))
            raise ValueError(f"cannot switch off {names}: choose from {known}")
        caps = replace(self, without=self.without | without)
        if "f16" in without:
            caps = replace(caps, f16=False, matrix=())
        if "subgroups" in without:
            caps = replace(caps, subgroups=False, subgroup_min=0, subgroup_max=0, matrix=())
        if "matrix" in without:
            caps = replace(caps, matrix=())
        if "dp4a" in without:
            caps = replace(caps, dp4a=False)
        return caps
