"""What a forecast is asked about: launches or profiles that some evidence holds, and the GPUs that are named."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from kerncast.errors import GPUError, InputError
from kerncast.gpu import GPU, list_gpus, resolve_gpu
from kerncast.kernel_profile import KernelProfile
from kerncast.launch import Launch, load_launches, read_toml
from kerncast.read import read_declared

Evidence = str | Path | Launch | KernelProfile | Sequence[Launch] | Sequence[KernelProfile]
GPUs = str | Path | GPU | Sequence[str | Path | GPU]


def resolve_gpus(gpu: GPUs) -> list[tuple[GPU, tuple[str, ...]]]:
    """Return the GPUs that are meant, each once, with what had to be assumed."""
    named: object = [gpu] if isinstance(gpu, str | Path | GPU) else gpu  # callers are not always type-checked
    if not isinstance(named, Iterable):
        raise InputError(f"{str(gpu)[:60]!r} names no GPU", cure="Give a name, a path, a GPU, or several.")
    resolved: list[tuple[GPU, tuple[str, ...]]] = []
    for one in named:
        if isinstance(one, GPU):
            resolved.append((one, ()))
        elif not isinstance(one, str | Path):
            raise InputError(f"{str(one)[:60]!r} names no GPU", cure="Give a name, a path or a GPU.")
        elif str(one).lower() == "all":
            resolved += [(each, ()) for each in list_gpus()]
        else:
            resolved.append(resolve_gpu(one))
    found: dict[str, tuple[GPU, tuple[str, ...]]] = {}
    for each, caveats in resolved:
        if found.setdefault(each.id, (each, caveats))[0] != each:
            raise GPUError(f"two different GPUs are called {each.id}", cure="Rename one of the files, or ask apart.")
    if not found:
        raise InputError("no GPU is named", cure='Add --gpu "TITAN V" (kerncast gpus lists them), or --gpu all.')
    return list(found.values())


def read_evidence(evidence: Evidence) -> list[Launch | KernelProfile]:
    """Return the launches or profiles that some evidence holds."""
    if isinstance(evidence, Launch | KernelProfile):
        return [evidence]
    if not isinstance(evidence, str | Path):
        given: object = evidence  # callers are not always type-checked
        several = (
            [one for one in given if isinstance(one, Launch | KernelProfile)] if isinstance(given, Sequence) else []
        )
        if not several or len(several) < len(evidence):
            raise InputError(
                "the evidence is neither a path, nor a launch, nor a profile, nor several of those",
                cure="Pass a path, or what load_launches or profile returned.",
            )
        return several
    path = Path(evidence)
    if path.suffix.lower() == ".toml":
        return list(read_declared(path) if "declared" in read_toml(path) else load_launches(path))
    if path.suffix in {".cu", ".cuh", ".cpp", ".cc"}:
        raise InputError(
            f"{path} is a source without a launch",
            cure="Name --kernel, --grid, --block and one --arg per parameter, or write a launch file.",
        )
    raise InputError(
        f"{path} is no evidence that this version reads",
        cure="Give a launch file or a file of declared counts (.toml).",
    )
