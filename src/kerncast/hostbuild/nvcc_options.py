"""What a command line of nvcc says: its inputs, the options of code and of linking, and what is to be made of them.

Source: NVIDIA CUDA Compiler Driver NVCC 12.9, sections "NVCC Command Options" and "Supported Phases".
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path

from kerncast.bounded_file import Bound, read_text
from kerncast.errors import InputError
from kerncast.units import MIB


class Language(StrEnum):
    """What an input is written in."""

    CUDA = "cuda"
    CXX = "c++"
    C = "c"
    OBJECT = "object"


class Phase(StrEnum):
    """What is made of the inputs."""

    PROGRAM = "program"
    OBJECT = "object"
    PREPROCESSED = "preprocessed text"
    PREPROCESSED_FILE = "file of preprocessed text"
    DEPENDENCIES = "dependencies"
    DEVICE_CODE = "device code"
    DEVICE_LINK = "device link"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Input:
    """One file that is compiled or linked."""

    path: Path
    language: Language


DEFAULT_ARCHITECTURE = 75
"""Architecture that host code is made for where no GPU is named."""


@dataclass(frozen=True, slots=True)
class CodeOptions:
    """Options that change what a source becomes."""

    defines: tuple[tuple[str, str], ...] = ()
    """name and value of each macro"""
    undefined: tuple[str, ...] = ()
    include_dirs: tuple[Path, ...] = ()
    system_include_dirs: tuple[Path, ...] = ()
    forced_includes: tuple[str, ...] = ()
    """headers that are read before a source, as they were named"""
    standard: str | None = None
    """version of C++, such as ``c++17``; None: the default of nvcc"""
    optimization: str | None = None
    """level, such as ``3``"""
    fast_math: bool = False
    """whether kernels use approximate functions"""
    host: tuple[str, ...] = ()
    """options for the host's compiler alone"""
    is_relocatable: bool = False
    """whether kernels may call device functions of other sources"""
    architecture: int = DEFAULT_ARCHITECTURE
    """number of the GPU's, such as 89: CUB and Thrust choose what they launch by it"""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """Options of linking."""

    libraries: tuple[str, ...] = ()
    """names, such as ``m``, in order"""
    folders: tuple[Path, ...] = ()
    words: tuple[str, ...] = ()
    """options for the linker alone"""
    is_shared: bool = False
    """whether a library is made, not a program"""
    has_runtime: bool = True
    """whether the CUDA runtime is linked"""


@dataclass(frozen=True, slots=True)
class DependencyOptions:
    """Options of a file for make that names what a source includes."""

    file: Path | None = None
    """None: beside the output"""
    targets: tuple[str, ...] = ()
    with_system: bool = True
    """whether headers of the system are named, too"""
    has_phony: bool = False
    """whether each header is a target of its own"""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line of nvcc."""

    phase: Phase
    inputs: tuple[Input, ...]
    code: CodeOptions
    link: LinkOptions
    output: Path | None = None
    output_dir: Path | None = None
    dependencies: DependencyOptions | None = None
    remarks: tuple[str, ...] = ()
    """options that have no effect here although they would have one with nvcc"""
    architectures: tuple[str, ...] = ()
    """numbers of the architectures named, such as ``75``"""
    shows: frozenset[str] = frozenset()
    """of ``version``, ``help``, ``verbose`` and ``dryrun`` those that are asked for"""


# How options are written: the long name, short ones, what follows, and what becomes of it here.
#
# What follows: nothing (flag), one value, or a list whose values are separated by commas. A flag or value in "ignored"
# changes nothing of what runs here; one in "refused" asks for what cannot be made.

_USED = """
list --define-macro -D
list --undefine-macro -U
list --include-path -I
list --system-include -isystem
list --pre-include -include
list --library -l
list --library-path -L
list --compiler-options -Xcompiler
list --linker-options -Xlinker
list --options-file -optf
list --dependency-target-name -MT -MQ
list --gpu-code -code
list --generate-code -gencode
one --gpu-architecture -arch
one --output-file -o
one --output-directory -odir
one --dependency-output -MF
one --std -std
one --optimize -O
one --x -x
one --relocatable-device-code -rdc
one --cudart -cudart
flag --use_fast_math -use_fast_math
flag --shared -shared
flag --compile -c
flag --device-c -dc
flag --device-w -dw
flag --device-link -dlink
flag --link -link
flag --lib -lib
flag --preprocess -E
flag --cuda -cuda
flag --generate-dependencies -M
flag --generate-nonsystem-dependencies -MM
flag --generate-dependencies-with-compile -MD
flag --generate-nonsystem-dependencies-with-compile -MMD
flag --generate-dependency-targets -MP
flag --ptx -ptx
flag --cubin -cubin
flag --fatbin -fatbin
flag --version -V
flag --help -h
flag --verbose -v
flag --dryrun -dryrun
flag --forward-unknown-to-host-compiler -forward-unknown-to-host-compiler
flag --forward-unknown-to-host-linker -forward-unknown-to-host-linker
flag --forward-unknown-opts -forward-unknown-opts
"""
_IGNORED = """
flag --debug -g
flag --device-debug -G
flag --generate-line-info -lineinfo
flag --profile -pg
flag --extended-lambda -extended-lambda --expt-extended-lambda -expt-extended-lambda
flag --expt-relaxed-constexpr -expt-relaxed-constexpr
flag --no-host-device-initializer-list -nohdinitlist
flag --no-host-device-move-forward -nohdmoveforward
flag --no-exceptions -noeh
flag --m64 -m64
flag --dlink-time-opt -dlto
flag --lto -lto
flag --gen-opt-lto -gen-opt-lto
flag --extensible-whole-program -ewp
flag --no-device-link -nodlink --nodevicelink -nodevicelink
flag --allow-unsupported-compiler -allow-unsupported-compiler
flag --allow-expensive-optimizations -allow-expensive-optimizations
flag --extra-device-vectorization -extra-device-vectorization
flag --restrict -restrict
flag --source-in-ptx -src-in-ptx
flag --keep-device-functions -keep-device-functions
flag --disable-warnings -w
flag --display-error-number -err-no
flag --no-display-error-number -no-err-no
flag --brief-diagnostics -brief-diag
flag --resource-usage -res-usage
flag --keep -keep
flag --save-temps -save-temps
flag --objdir-as-tempdir -objtemp
flag --clean-targets -clean
flag --dont-use-profile -noprof
flag --use-local-env -use-local-env
flag --compile-as-tools-patch -astoolspatch
flag --no-compress -no-compress
flag --Wno-deprecated-gpu-targets -Wno-deprecated-gpu-targets
flag --Wno-deprecated-declarations -Wno-deprecated-declarations
flag --Wreorder -Wreorder
flag --Wdefault-stream-launch -Wdefault-stream-launch
flag --Wmissing-launch-bounds -Wmissing-launch-bounds
flag --Wext-lambda-captures-this -Wext-lambda-captures-this
flag --sp-bounds-check -sp-bounds-check
flag --device-stack-protector -device-stack-protector
flag --fdevice-time-trace -fdevice-time-trace
flag --fdevice-syntax-only -fdevice-syntax-only
flag --minimal -minimal
one --machine -m
one --ccbin -ccbin --compiler-bindir -compiler-bindir
one --archiver-binary -arbin
one --cudadevrt -cudadevrt
one --libdevice-directory -ldir
one --target-directory -target-dir
one --host-linker-script -hls
one --default-stream -default-stream
one --maxrregcount -maxrregcount
one --ftz -ftz
one --prec-div -prec-div
one --prec-sqrt -prec-sqrt
one --fmad -fmad
one --threads -t
one --split-compile -split-compile
one --split-compile-extended -split-compile-extended
one --jobserver -jobserver
one --keep-dir -keep-dir
one --time -time
one --frandom-seed -frandom-seed
one --ftemplate-depth -ftemplate-depth
one --ftemplate-backtrace-limit -ftemplate-backtrace-limit
one --Ofast-compile -Ofc
one --dopt -dopt
one --qpp-config -qpp-config
one --static-global-template-stub -static-global-template-stub
one --device-entity-has-hidden-visibility -device-entity-has-hidden-visibility
one --compress-mode -compress-mode
list --Werror -Werror
list --opt-info -opt-info
list --entries -e
list --diag-error -diag-error
list --diag-suppress -diag-suppress
list --diag-warn -diag-warn
list --ptxas-options -Xptxas
list --nvlink-options -Xnvlink
list --archive-options -Xarchive
list --Xcudafe -Xcudafe
list --Xfatbin -Xfatbin
"""
_REFUSED = """
flag --run -run
flag --ltoir -ltoir
flag --optix-ir -optix-ir
flag --relocatable-ptx -relocatable-ptx
flag --list-gpu-code -code-ls
flag --list-gpu-arch -arch-ls
flag --host-relocatable-link -r
one --run-args -run-args
"""

#: Ignored, but a program may compute or run otherwise with them.
_WORTH_A_REMARK = frozenset({"--maxrregcount", "--ftz", "--prec-div", "--prec-sqrt", "--fmad", "--default-stream"})

#: Phases by the flags that ask for them, the earliest one first: it decides where several are named.
_PHASES = (
    ("--generate-dependencies", Phase.DEPENDENCIES),
    ("--generate-nonsystem-dependencies", Phase.DEPENDENCIES),
    ("--preprocess", Phase.PREPROCESSED),
    ("--cuda", Phase.PREPROCESSED_FILE),
    ("--ptx", Phase.DEVICE_CODE),
    ("--cubin", Phase.DEVICE_CODE),
    ("--fatbin", Phase.DEVICE_CODE),
    ("--compile", Phase.OBJECT),
    ("--device-c", Phase.OBJECT),
    ("--device-w", Phase.OBJECT),
    ("--device-link", Phase.DEVICE_LINK),
    ("--lib", Phase.ARCHIVE),
)
_SHOWN = {"--version": "version", "--help": "help", "--verbose": "verbose", "--dryrun": "dryrun"}

_LANGUAGES = {"cu": Language.CUDA, "c": Language.C, "c++": Language.CXX}
_SUFFIXES = {
    ".cu": Language.CUDA, ".cup": Language.CUDA,
    ".c": Language.C,
    ".cc": Language.CXX, ".cp": Language.CXX, ".cpp": Language.CXX, ".cxx": Language.CXX, ".c++": Language.CXX,
    ".C": Language.CXX,
    ".o": Language.OBJECT, ".obj": Language.OBJECT, ".a": Language.OBJECT, ".so": Language.OBJECT,
}  # fmt: skip
_VERSIONED_LIBRARY = re.compile(r"\.so(?:\.\d+)+\Z")

#: CUDA 12 has dropped what is older.
_OLDEST_ARCHITECTURE = 50
_ARCHITECTURE = re.compile(r"(?:sm|compute|lto)_(\d+)")

_RESPONSE_FILE = Bound(MIB)
_MOST_DEPTH = 10
#: Options whose value may follow without a blank, and what it looks like.
_WITH_VALUE_ATTACHED = {
    "-D": r".+", "-U": r".+", "-I": r".+", "-L": r".+", "-l": r".+", "-o": r".+",
    "-O": r"\d|s|z|g|fast", "-m": r"\d+", "-t": r"\d+", "-x": r"cu|c|c\+\+",
}  # fmt: skip
_WORDS_OF_LIST = re.compile(r"""((?:[^,"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*'|["'\\])+)""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    """long name"""
    follows: str
    """flag, one or list"""
    fate: str
    """used, ignored or refused"""


@cache
def _kinds() -> dict[str, _Kind]:
    found: dict[str, _Kind] = {}
    for fate, text in (("used", _USED), ("ignored", _IGNORED), ("refused", _REFUSED)):
        for line in text.split("\n"):
            if line:
                follows, *names = line.split()
                kind = _Kind(names[0], follows, fate)
                # nvcc takes a long name behind one dash, too.
                found |= dict.fromkeys([*names, names[0][1:]], kind)
    return found


@dataclass(slots=True)
class _Said:
    """The words of a command line, by what they are."""

    values: dict[str, list[str]]
    """values by the long name of their option; of a flag, an empty text"""
    inputs: list[tuple[str, str | None]]
    """each with the language that was set before it"""
    forwarded: list[str]
    unknown: list[str]

    def flag(self, name: str) -> bool:
        return name in self.values

    def last(self, name: str) -> str | None:
        return self.values[name][-1] if name in self.values else None

    def all(self, name: str) -> list[str]:
        return self.values.get(name, [])

    def paths(self, name: str) -> tuple[Path, ...]:
        return tuple(map(Path, self.all(name)))


def parse_command_line(words: Sequence[str]) -> CommandLine:
    """Return what a command line of nvcc says; raises InputError for what nvcc does not know or what cannot be made.

    >>> line = parse_command_line(["-O3", "-DN=4", "-arch=sm_70", "a.cu", "-o", "a", "-lm"])
    >>> line.code.optimization, line.code.defines, line.link.libraries, line.output
    ('3', (('N', '4'),), ('m',), PosixPath('a'))
    """
    said = _read(words)
    _check(said)
    numbers = _architectures(said)
    shows = frozenset(word for name, word in _SHOWN.items() if said.flag(name))
    inputs = () if shows & {"version", "help"} else tuple(_input(*each) for each in said.inputs)
    output, folder = said.last("--output-file"), said.last("--output-directory")
    return CommandLine(
        _phase(said),
        inputs,
        _code_options(said),
        _link_options(said),
        Path(output) if output else None,
        Path(folder) if folder else None,
        _dependency_options(said),
        _remarks(said, numbers),
        numbers,
        shows,
    )


def _read(words: Sequence[str]) -> _Said:
    said = _Said({}, [], [], [])
    waiting = _Waiting(list(reversed(words)))
    language = None
    while (word := waiting.next()) is not None:
        option = _option(word)
        if option is not None:
            kind, value = option
            if value is None and kind.follows != "flag":
                value = waiting.value(word, kind)
            if kind.name == "--options-file":
                for path in _list_of(value or ""):
                    waiting.push_file(path)
            elif kind.name == "--x":
                language = value
            else:
                _note(said, kind, value)
        elif word.startswith("@") and len(word) > 1:
            waiting.push_file(word[1:])
        elif word.startswith("-"):
            said.unknown.append(word)
        else:
            said.inputs.append((word, language))
    if any(said.flag(name) for name in _kinds() if name.startswith("--forward-unknown")):
        said.forwarded, said.unknown = said.unknown, []
    return said


@dataclass(slots=True)
class _Waiting:
    """The words not yet read, the next one last."""

    words: list[str]
    files: int = 0

    def next(self) -> str | None:
        return self.words.pop() if self.words else None

    def value(self, option: str, kind: _Kind) -> str:
        if not self.words:
            if kind.follows == "list":  # as Makefiles write -L$(FOLDER) without a folder
                return ""
            raise InputError(f"{option} stands last and needs a value", cure="Give it one.")
        return self.words.pop()

    def push_file(self, path: str) -> None:
        """Put the words of a file in the place of its name."""
        self.files += 1
        if self.files > _MOST_DEPTH:
            raise InputError("files of options name one another", where=path, cure="Name each file once.")
        text = read_text(Path(path), _RESPONSE_FILE)
        try:
            self.words += reversed(shlex.split(text))
        except ValueError as error:
            raise InputError(f"an open quote ({error})", where=path, cure="Close it.") from None


def _option(word: str) -> tuple[_Kind, str | None] | None:
    """Return the option that a word names, and the value that it brings itself; None for no option that is known."""
    kinds = _kinds()
    if not word.startswith("-") or word == "-":
        return None
    if word in kinds:
        return kinds[word], None
    name, equals, value = word.partition("=")
    if equals and name in kinds:
        return kinds[name], value
    value = word[2:]
    # What is no value of these is another option, one that nobody knows.
    if word[:2] in _WITH_VALUE_ATTACHED and re.fullmatch(_WITH_VALUE_ATTACHED[word[:2]], value, re.DOTALL):
        return kinds[word[:2]], value
    return None


def _note(said: _Said, kind: _Kind, value: str | None) -> None:
    values = said.values.setdefault(kind.name, [])
    if kind.follows == "list" and kind.name not in {"--generate-code", "--gpu-code"}:
        values += _list_of(value or "")
    else:
        values.append(value or "")


def _list_of(value: str) -> list[str]:
    r"""Return the values of a list: commas separate them, but for those in quotes or behind a backslash.

    >>> _list_of(r"-a,-b\,c"), _list_of('"-Wl,-z"'), _list_of("")
    (['-a', '-b,c'], ['"-Wl,-z"'], [])
    """
    return [found.replace("\\,", ",") for found in _WORDS_OF_LIST.findall(value)]


def _check(said: _Said) -> None:
    if said.unknown:
        names = ", ".join(said.unknown)
        plural = "options that nvcc does not know" if len(said.unknown) > 1 else "an option that nvcc does not know"
        raise InputError(f"{plural}: {names}", cure="Give options of the host's compiler by -Xcompiler.")
    kinds = _kinds()
    refused = [name for name in said.values if kinds[name].fate == "refused"]
    if refused:
        raise InputError(f"{refused[0]} asks for what is not made here", cure="Leave it out.")


def _phase(said: _Said) -> Phase:
    return next((phase for flag, phase in _PHASES if said.flag(flag)), Phase.PROGRAM)


def _input(word: str, language: str | None) -> Input:
    path = Path(word)
    by_name = _SUFFIXES.get(path.suffix) or _SUFFIXES.get(path.suffix.lower())
    if _VERSIONED_LIBRARY.search(path.name):
        by_name = Language.OBJECT
    if by_name == Language.OBJECT:
        return Input(path, by_name)
    if language is not None:
        if language not in _LANGUAGES:
            raise InputError(f"-x {language} names no language", cure="Give cu, c++ or c.")
        return Input(path, _LANGUAGES[language])
    if by_name is None:
        raise InputError(
            f"Don't know what to do with {word!r}: neither a source nor an object, by its name",
            cure="Name sources .cu, .cpp, .cc, .cxx or .c, or give their language by -x.",
        )
    return Input(path, by_name)


def _code_options(said: _Said) -> CodeOptions:
    host = [word for each in said.all("--compiler-options") for word in _split(each)] + said.forwarded
    standard = said.last("--std") or _last_with(host, "-std=")
    level = said.last("--optimize")
    return CodeOptions(
        defines=tuple(_defines(said.all("--define-macro"), host)),
        undefined=tuple(said.all("--undefine-macro")),
        include_dirs=(*said.paths("--include-path"), *_paths_with(host, "-I")),
        system_include_dirs=(*said.paths("--system-include"), *map(Path, _after(host, "-isystem"))),
        forced_includes=(*said.all("--pre-include"), *_after(host, "-include")),
        standard=standard.replace("gnu++", "c++") if standard else None,
        optimization=(_last_with(host, "-O") if level is None else level) or ("1" if level == "" else None),
        fast_math=said.flag("--use_fast_math"),
        host=tuple(_without_shared(host)),
        is_relocatable=said.flag("--device-c") or (said.last("--relocatable-device-code") or "") in {"true", "1"},
    )


def _split(words: str) -> list[str]:
    """Return the options in a value of ``-Xcompiler``: a shell splits it once more."""
    try:
        return shlex.split(words)
    except ValueError:
        return words.split()


def _defines(words: Iterable[str], host: Sequence[str]) -> Iterator[tuple[str, str]]:
    own = (word[2:] for word in host if word.startswith("-D") and len(word) > 2)
    for word in (*words, *own):
        name, equals, value = word.partition("=")
        yield name, value if equals else "1"


def _last_with(words: Sequence[str], beginning: str) -> str | None:
    return next((word.removeprefix(beginning) for word in reversed(words) if word.startswith(beginning)), None)


def _paths_with(words: Sequence[str], beginning: str) -> tuple[Path, ...]:
    return tuple(Path(word[2:]) for word in words if word.startswith(beginning) and len(word) > 2)


def _after(words: Sequence[str], name: str) -> list[str]:
    return [after for word, after in pairwise(words) if word == name]


def _without_shared(host: Sequence[str]) -> Iterator[str]:
    """Yield options of the host's compiler, without those that are options of the code anyway."""
    skips = False
    for word in host:
        if skips:
            skips = False
        elif word in {"-isystem", "-include"}:
            skips = True
        elif not word.startswith(("-D", "-I", "-O", "-std=")):
            yield word


def _link_options(said: _Said) -> LinkOptions:
    own = [word.removeprefix("-l") for word in said.forwarded if word.startswith("-l")]
    words = [word for each in said.all("--linker-options") for word in _split(each)]
    return LinkOptions(
        libraries=(*said.all("--library"), *own),
        folders=said.paths("--library-path"),
        words=tuple(words),
        is_shared=said.flag("--shared"),
        has_runtime=said.last("--cudart") != "none",
    )


def _dependency_options(said: _Said) -> DependencyOptions | None:
    alone = said.flag("--generate-dependencies") or said.flag("--generate-nonsystem-dependencies")
    beside = said.flag("--generate-dependencies-with-compile")
    beside_own = said.flag("--generate-nonsystem-dependencies-with-compile")
    if not (alone or beside or beside_own):
        return None
    file = said.last("--dependency-output")
    own_only = beside_own or said.flag("--generate-nonsystem-dependencies")
    return DependencyOptions(
        Path(file) if file else None,
        tuple(said.all("--dependency-target-name")),
        with_system=not own_only,
        has_phony=said.flag("--generate-dependency-targets"),
    )


def _architectures(said: _Said) -> tuple[str, ...]:
    texts = [*said.all("--gpu-architecture"), *said.all("--generate-code"), *said.all("--gpu-code")]
    return tuple(dict.fromkeys(number for text in texts for number in _ARCHITECTURE.findall(text)))


def _remarks(said: _Said, numbers: Sequence[str]) -> tuple[str, ...]:
    ignored = [name for name in said.values if name in _WORTH_A_REMARK]
    remarks = [f"{name} has no effect" for name in ignored]
    old = [number for number in numbers if int(number) < _OLDEST_ARCHITECTURE]
    if old:
        names = ", ".join(f"sm_{number}" for number in old)
        remarks.append(f"CUDA 12 does not compile for {names}: kernels are compiled for the GPU of the run")
    return tuple(remarks)
