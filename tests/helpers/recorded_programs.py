"""Recordings of small programs, made by hand: what was launched, and what memory held before."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kerncast.launch import Memory, Region
from kerncast.recording import (
    EVENT,
    LAUNCH,
    Code,
    ContentsWriter,
    Direction,
    EventKind,
    Group,
    KeptLaunch,
    Kernel,
    LibraryCall,
    Recording,
    SourceFile,
    Waited,
    read_recording,
    write_recording,
)
from kerncast.recording.recording import HOST_WAITS

SOURCE = """
__constant__ float table[4];
__global__ void scale(float *x, int n, double factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
__global__ void gather(float *x, const int *where, float *first) {
  x[threadIdx.x] = first[where[threadIdx.x]] + table[threadIdx.x & 3];
}
struct Pair { float *x; int n; };
__global__ void chase(Pair pair) { pair.x[threadIdx.x] = pair.n; }
"""
KERNELS = (("scale", "_Z5scalePfid"), ("gather", "_Z6gatherPfPKiS_"), ("chase", "_Z5chase4Pair"))
X, WHERE, TABLE = 1 << 44, (1 << 44) + 4096, (1 << 44) + 8192
FLOATS = 512
Bytes = npt.NDArray[np.uint8]


def parameters(*values: object) -> bytes:
    """Return a block of parameters, each at a multiple of its size: pointers are ints."""
    raw = b""
    for value in values:
        own = np.asarray(value, np.uint64 if isinstance(value, int) else None).tobytes()
        raw += bytes(-len(raw) % len(own)) + own
    return raw


SCALE = parameters(X, np.int32(500), np.float64(0.5))
GATHER = parameters(X, WHERE, X + 64)
CHASE = parameters(X, np.int32(7), np.int32(0))


def written(
    folder: Path, launches: Sequence[tuple[int, int]], *, calls: Sequence[LibraryCall] = (),
    raw: Mapping[int, bytes] | None = None,
) -> Recording:  # fmt: skip
    """Write a program's source and a recording of its launches of scale (0), gather (1) and chase (2), and read that.

    A launch is a kernel and its instructions; the first one of each kernel is kept.
    """
    source = folder / "app.cu"
    source.write_text(SOURCE, encoding="utf-8")
    (folder / "contents").unlink(missing_ok=True)
    contents = ContentsWriter(folder / "contents", 10**6)
    digest = contents.keep(SOURCE.encode())
    assert digest
    numbers = sorted({kernel for kernel, _ in launches})
    blocks = {0: GATHER, 1: GATHER, 2: CHASE} | {0: SCALE} | dict(raw or {})
    kept = [
        KeptLaunch(next(n for n, each in enumerate(launches) if each[0] == kernel), _memory(contents, blocks[kernel]))
        for kernel in numbers
    ]
    recording = Recording(
        ("./app",), "t4", "with status 0", (Code(str(source), files=(SourceFile(str(source), digest),)),),
        tuple(Kernel(*KERNELS[n], 0) for n in numbers),
        tuple(Group(place, (4 if n == 0 else 1, 1, 1), (128, 1, 1), 0) for place, n in enumerate(numbers)), tuple(kept),
        np.array([(numbers.index(kernel), work, n) for n, (kernel, work) in enumerate(launches)], LAUNCH),
        _events(len(launches), len(calls)), tuple(calls), host_seconds=1.0,
    )  # fmt: skip
    contents.close()
    write_recording(folder / "app.kc", recording, contents.path)
    return read_recording(folder / "app.kc")


def _memory(contents: ContentsWriter, raw: bytes) -> Memory:
    held = (np.ones(FLOATS, np.float32), np.arange(128, dtype=np.int32), np.array([1, 2, 3, 4], np.float32))
    regions = []
    for name, address, values in zip(("buffer 1", "buffer 2", "table"), (X, WHERE, TABLE), held, strict=True):
        chunks = contents.keep_memory(values.view(np.uint8))
        assert chunks is not None
        regions.append(Region(name, address, values.nbytes, chunks))
    return Memory(contents.path, raw, tuple(regions), (("table", TABLE),))


def _events(launches: int, calls: int) -> npt.NDArray[np.void]:
    """Return a copy to the GPU, all launches, all calls of libraries, and a wait; the host needs a second before."""
    to_device = int(Direction.HOST_TO_DEVICE) + HOST_WAITS
    rows = [(EventKind.COPY, 0, 0, 1.0, 10**6, to_device)]
    rows += [(EventKind.LAUNCH, 0, 0, 1.0, number, 0) for number in range(launches)]
    rows += [(EventKind.LIBRARY, 0, 0, 1.0, number, 0) for number in range(calls)]
    rows += [(EventKind.WAIT, 0, 0, 1.0, 0, int(Waited.DEVICE)), (EventKind.END, 0, 0, 1.0, 0, 0)]
    return np.array(rows, EVENT)
