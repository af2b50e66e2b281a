"""NOUN CompiledSource: what the compiler makes of one source, one kernel and several architectures."""

from dataclasses import dataclass, field
from pathlib import Path

from kerncast.bounded_file import Bound
from kerncast.caveats import Caveat
from kerncast.errors import CompileError
from kerncast.launch import DEFAULT_STANDARD
from kerncast.profiles import Resources
from kerncast.units import MIB

#: Generated kernels of 100,000 lines have some 5 MiB.
SOURCE_FILE = Bound(16 * MIB, cure="Check the path.", cure_if_larger="Split it.", error=CompileError)

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel, as the source declares it."""

    name: str
    """name of the parameter; empty where the source gives none"""
    type_text: str
    """type as written, such as ``const float *``"""
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
    """element type of a pointer or type of a number, as launch files name it (f32, …); None for others"""
    pointee_type: str | None
    """type that the pointer points to, without const, such as ``float4``"""
    pointee_bytes: int | None
    """size of the type that the pointer points to"""
    canonical_type: str = ""
    """type without aliases and with its namespaces, to tell overloaded kernels apart"""


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """A kernel as the source declares it."""

    name: str
    """qualified name, such as ``blas::axpy``"""
    parameters: tuple[Parameter, ...]
    is_template: bool
    template_parameters: tuple[str, ...]
    """names of the template parameters, in order"""
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
    """bytes that are copied; None where the source has no literal values"""


@dataclass(frozen=True, slots=True)
class DeviceVariable:
    """A variable in constant or global memory, as the source declares it."""

    name: str
    """qualified name, such as ``blur::weights``"""
    is_constant: bool
    """whether the variable is __constant__, which only the host can set"""
    type_text: str
    """type as written, such as ``float[25]``"""
    element: str | None
    """element type as launch files name it (f32, …); None for structs and pointers"""
    byte_size: int | None
    """None where the type is unknown"""
    has_initial: bool
    """whether the declaration gives an initial value"""
    line: int
    copies: tuple[HostCopy, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run of the compiler; beyond them it ends with a CompileError."""

    seconds: float = 300.0
    memory_bytes: int = 4 * GIB
    """most address space, on systems that can limit it"""


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """A kernel to compile, and the options."""

    source: Path
    architectures: tuple[str, ...]
    """architectures to compile for, such as sm_70; each becomes one CompiledKernel"""
    kernel: str | None = None
    """plain name, qualified name or template instance; None where the source has only one kernel"""
    defines: tuple[tuple[str, str], ...] = ()
    """name and value of each macro"""
    include_dirs: tuple[Path, ...] = ()
    """folders of headers, searched after the folder of the source"""
    standard: str = DEFAULT_STANDARD
    fast_math: bool = False
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One kernel compiled for one architecture."""

    kernel: str
    """name that the user gave"""
    mangled: str
    """name of the kernel's .entry in the PTX"""
    architecture: str
    """architecture asked for; ``resources.architecture`` is the one compiled for"""
    ptx: str = field(repr=False)
    """text of the whole PTX module"""
    resources: Resources
    signature: KernelSignature | None
    """signature of the kernel, of the instance for a template; None where libclang is not installed"""
    caveats: tuple[Caveat, ...] = ()
    cubin: bytes = field(default=b"", repr=False)
    """machine code, for a disassembler"""
    variables: tuple[DeviceVariable, ...] = ()
    """variables in constant and global memory; empty where libclang is not installed"""


@dataclass(frozen=True, slots=True)
class CompiledSource:
    """One kernel of one source, compiled for every architecture requested."""

    source: Path
    kernels: tuple[CompiledKernel, ...]
    """kernels in the order of the architectures asked for"""
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
    """The reply of the compiler's process for one architecture."""

    kernel: CompiledKernel
    log: tuple[str, ...]
    """warnings of the compiler"""
    emptied: tuple[str, ...]
    """headers that were not found and were replaced by empty ones"""


@dataclass(frozen=True, slots=True)
class CompileReply:
    """The reply of the compiler's process."""

    kernels: tuple[KernelReply, ...]
    """replies in the order of the targets"""


@dataclass(frozen=True, slots=True)
class Geometry:
    """One part of a launch's configuration, as a source writes it."""

    expression: str
    """text of the source; empty where it has none"""
    extents: tuple[int | None, ...]
    """one number per dimension (blocks or threads; bytes for shared memory); None where the text has no constant"""


@dataclass(frozen=True, slots=True)
class WrittenLaunch:
    """One ``<<<…>>>`` in the text of a source."""

    written: str
    """name of what is launched, without arguments of a template"""
    template: str
    """arguments of the template as written; empty where there are none"""
    is_instance: bool
    """whether these arguments mean the same outside the function that launches"""
    place: str
    """file and line"""
    grid: Geometry
    block: Geometry
    shared_bytes: Geometry
    arguments: tuple[str, ...]
    """texts of what is passed to the kernel"""


@dataclass(frozen=True, slots=True)
class SourceListing:
    """What the text of a source says of its kernels and of their launches."""

    kernels: tuple[KernelSignature, ...]
    launches: tuple[WrittenLaunch, ...]
    defines: tuple[tuple[str, str], ...] = ()
    """macros of a Makefile that the source names and the user does not give"""


@dataclass(frozen=True, slots=True)
class ToolStatus:
    """Whether one part that kerncast uses is there and works, for ``kerncast doctor``."""

    name: str
    version: str | None
    found: bool
    """whether the part is installed and usable"""
    needed_for: str
    cure: str | None
    """advice on what to install; None where nothing is amiss"""
    is_optional: bool = False
    """whether all forecasts work without it, except those that ``needed_for`` names"""
    trouble: str | None = None
    """fault of a part that is installed"""
    command: str | None = None
    """shell command that mends the fault"""


def _declared(parameter: Parameter) -> str:
    return f"{parameter.type_text} {parameter.name}".replace("* ", "*").rstrip()
