"""NOUN CompiledSource: what the compiler makes of one source, one kernel and several architectures."""

from dataclasses import dataclass, field
from pathlib import Path

from kerncast.caveats import Caveat
from kerncast.launch import DEFAULT_STANDARD
from kerncast.profiles import Resources

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel, as the source declares it."""

    name: str
    """empty where the source names none"""
    type_text: str
    """Type as written, such as ``const float *``."""
    kind: str
    """pointer, integer, float, bool, struct, or unknown (a type that depends on a template parameter)"""
    byte_size: int | None
    """None where the type is unknown"""
    is_pointer: bool
    is_const: bool
    """whether the kernel may not write through the pointer; for a value, whether it is declared const"""
    signed: bool
    """whether an integer (or the integer that the pointer points to) is signed"""
    element: str | None
    """Element type of a pointer or type of a number, as launch files name it (f32, …); None for others."""
    pointee_type: str | None
    """type that the pointer points to, without const, such as ``float4``"""
    pointee_bytes: int | None
    """size of what the pointer points to"""
    canonical_type: str = ""
    """the type without aliases and with its namespaces, to tell overloaded kernels apart"""


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """A kernel as the source declares it."""

    name: str
    """qualified, such as ``blas::axpy``"""
    parameters: tuple[Parameter, ...]
    is_template: bool
    template_parameters: tuple[str, ...]
    """names, in order"""
    line: int

    @property
    def short_name(self) -> str:
        """The name without namespaces."""
        return self.name.rpartition("::")[2]

    def __str__(self) -> str:
        head = f"template <{', '.join(self.template_parameters)}> " if self.is_template else ""
        return f"{head}{self.name}({', '.join(_declared(p) for p in self.parameters)})"


@dataclass(frozen=True, slots=True)
class HostCopy:
    """A place in host code that sets a variable of the device."""

    file: str
    line: int
    data: bytes | None
    """what is copied, where literal values in the source say it"""


@dataclass(frozen=True, slots=True)
class DeviceVariable:
    """A variable in constant or global memory, as the source declares it."""

    name: str
    """qualified, such as ``blur::weights``"""
    is_constant: bool
    """whether it is __constant__, which only the host can set"""
    type_text: str
    """Type as written, such as ``float[25]``."""
    element: str | None
    """Element type, as launch files name it (f32, …); None for structs and pointers."""
    byte_size: int | None
    """None where the type is unknown"""
    has_initial: bool
    """whether its declaration gives it a value"""
    line: int
    copies: tuple[HostCopy, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run of the compiler may use; more ends it with a CompileError."""

    seconds: float = 60.0
    memory_bytes: int = 4 * GIB
    """address space, on systems that can limit it"""


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """What is to be compiled."""

    source: Path
    architectures: tuple[str, ...]
    """such as sm_70; each becomes one CompiledKernel"""
    kernel: str | None = None
    """plain name, qualified name or template instance; None where the source has only one kernel"""
    defines: tuple[tuple[str, str], ...] = ()
    """macros, name and value"""
    include_dirs: tuple[Path, ...] = ()
    """searched after the folder of the source"""
    standard: str = DEFAULT_STANDARD
    fast_math: bool = False
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One kernel compiled for one architecture."""

    kernel: str
    """Name that the user gave."""
    mangled: str
    """name of its .entry in the PTX"""
    architecture: str
    """Architecture asked for; ``resources.architecture`` is the one compiled for."""
    ptx: str = field(repr=False)
    """the whole module"""
    resources: Resources
    signature: KernelSignature | None
    """None where libclang is not installed; of the instance where the kernel is a template"""
    caveats: tuple[Caveat, ...] = ()
    cubin: bytes = field(default=b"", repr=False)
    """the machine code, for a disassembler"""
    variables: tuple[DeviceVariable, ...] = ()
    """Variables in constant and global memory; empty where libclang is not installed."""


@dataclass(frozen=True, slots=True)
class CompiledSource:
    """One kernel of one source, compiled for every architecture requested."""

    source: Path
    kernels: tuple[CompiledKernel, ...]
    """Kernels in the order of the architectures asked for."""
    log: tuple[str, ...] = ()
    """warnings of the compiler"""

    def kernel_for(self, architecture: str) -> CompiledKernel:
        """Return the kernel compiled for an architecture that was requested."""
        for kernel in self.kernels:
            if kernel.architecture == architecture:
                return kernel
        raise KeyError(architecture)


@dataclass(frozen=True, slots=True)
class KernelReply:
    """What the compiler's process answers for one architecture."""

    kernel: CompiledKernel
    log: tuple[str, ...]
    """warnings of the compiler"""
    emptied: tuple[str, ...]
    """headers that were not found, and in whose place empty ones were compiled"""


@dataclass(frozen=True, slots=True)
class CompileReply:
    """What the compiler's process answers."""

    kernels: tuple[KernelReply, ...]
    """in the order of the targets"""


@dataclass(frozen=True, slots=True)
class ToolStatus:
    """Whether one part that kerncast uses is there and works, for ``kerncast doctor``."""

    name: str
    version: str | None
    found: bool
    """whether it is there, and can be used"""
    needed_for: str
    cure: str | None
    """None where nothing is amiss"""
    is_optional: bool = False
    """whether forecasts work without it, but for what it is needed for"""
    trouble: str | None = None
    """Fault of a part that is installed."""
    command: str | None = None
    """Shell command that mends it."""


def _declared(parameter: Parameter) -> str:
    return f"{parameter.type_text} {parameter.name}".replace("* ", "*").rstrip()
