"""Launches of HeCBench kernels that move data, as gpuFLOPBench profiled them: transposes, atomics, barriers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from hecbench_launches import floats
from numpy.typing import NDArray
from timing_cases import array_file, launch_of

from kerncast.launch import Buffer, Extent, Fill, Launch, Value

SOURCE = Path(__file__).parent / "kernels" / "hecbench_memory.cu"
#: Arrays that no fill describes are written here when they are first asked for.
ARRAYS = Path(__file__).parents[1] / "out" / "hecbench"

_SIDE = 16384
_TENSOR = (41, 13, 11, 9, 76, 50)
_WIDTH, _HEIGHT = 1920, 1080
_NUMBERS = 52_428_800
_CHANNELS, _IMAGE = 32, 224 * 224
_SIGNAL_LEVELS, _HAAR_LEVELS = 23, 9
_INTERLEAVED = 4096
_RINGS = 5000
_BYTES = 8192 * 8192
_NODES = 1024
_STENCIL = 134_217_728
_BATCHES, _ROWS, _COLUMNS = 256, 100_000, 768
_PIXELS = 7680 * 4320
_POOLED, _POOL_IMAGES = 2048, 96
_MATRIX = 8192
_FILTERED = 100_000_000
_WALSH = 23
_EIGHTS = 2**27
_SUMMED = 2**25
_SMOOTHED, _THRESHOLD, _MOST_RADIUS = 8192, 2000, 9
_CLASSIFIED, _CLASSES, _TOP = 8192, 10000, 10
_STATE = 4_000_000
_SPINS = 5120
_JACOBI = 2048
_STREAM = 2**25

_THREADS: Extent = (256, 1, 1)
_TILE: Extent = (16, 16, 1)


def memory_launches() -> dict[tuple[str, str], Launch]:
    """Return the launches by program and kernel, as gpuFLOPBench names them."""
    return {
        **_transposes(), **_tensor_transpose(), **_histograms(), **_atomics(), **_sums(), **_small_steps(),
        **_strides(), **_embeddings(), **_images(), **_walsh(), **_filters(), **_smoothing(), **_copies(),
    }  # fmt: skip


def _launch(kernel: str, grid: Extent, block: Extent, **values: Value) -> Launch:
    return launch_of(SOURCE, kernel, (grid, block), values)


def _blocks(threads: int, block: int = 256) -> Extent:
    return (-(-threads // block), 1, 1)


def whole_numbers(*shape: int, low: int = 0, high: int = 0, element: str = "i32") -> Buffer:
    """Return a buffer of random whole numbers from low to below high, or of zeros."""
    return Buffer(element, shape, Fill("randint", low, high) if high else Fill("zeros"))


def _doubles(*shape: int) -> Buffer:
    return floats(*shape, element="f64")


def _listed(name: str, element: str, values: NDArray[np.generic]) -> Buffer:
    """Return a buffer with these values, kept in a file of this name."""
    file = array_file(ARRAYS / f"{name}.npy", lambda: values)
    return Buffer(element, values.shape, Fill("file", path=file))


def _transposes() -> dict[tuple[str, str], Launch]:
    names = ["copy", "copySharedMem", "transposeNaive", "transposeCoalesced", "transposeNoBankConflicts"]
    names += ["transposeCoarseGrained", "transposeFineGrained", "transposeDiagonal"]
    square = floats(_SIDE, _SIDE)
    values: dict[str, Value] = {"out": square, "in": square, "width": _SIDE, "height": _SIDE}
    grid: Extent = (_SIDE // 16, _SIDE // 16, 1)
    return {("matrixT", name): _launch(name, grid, _TILE, **values) for name in names}


def _tensor_transpose() -> dict[tuple[str, str], Launch]:
    """Return the transpose of six dimensions 1 2 3 4 5 6 to 2 3 4 6 1 5; a tile has the first three."""
    d1, d2, d3, d4, d5, d6 = _TENSOR
    shapes = {"in": (d4, d5, d6), "out": (d2, d3, d1)}
    strides = {
        "in": (d2 * d3, d2 * d3 * d4 * d6 * d1, d2 * d3 * d4),
        "local": (d1, d1 * d2, 1),
        "out": (1, d2, d2 * d3 * d4 * d6),
    }
    arrays = {f"shape_{name}": np.array(shape, np.int32) for name, shape in shapes.items()}
    arrays |= {f"stride_{name}": np.array(stride, np.int32) for name, stride in strides.items()}
    inverses = {f"inverse_{name}": 1 / np.array(shape, np.float32) for name, shape in shapes.items()}
    order = ("shape_in", "shape_out", "inverse_in", "inverse_out", "stride_in", "stride_local", "stride_out")
    listed: dict[str, Value] = {
        name: _listed(f"tensor_{name}", "f32", inverses[name])
        if name in inverses
        else _listed(f"tensor_{name}", "i32", arrays[name])
        for name in order
    }
    tile, tiles = d1 * d2 * d3, d4 * d5 * d6
    tensor = _doubles(tiles, tile)
    sizes: dict[str, Value] = {"dim_in": 3, "dim_out": 3, "tiles": tiles, "tile_size": tile}
    values = sizes | listed | {"in": tensor, "out": tensor}
    return {("tensorT", "tensor_transpose"): _launch("tensor_transpose", (tiles, 1, 1), _THREADS, **values)}


def _histograms() -> dict[tuple[str, str], Launch]:
    """Return histograms of pixels that are means of three random bytes."""
    channels = np.random.default_rng(0).integers(0, 256, (3, _WIDTH * _HEIGHT))
    pixels = _listed("pixels", "u8", (channels.sum(axis=0) // 3).astype(np.uint8))
    values: dict[str, Value] = {
        "in": pixels, "width": _WIDTH, "height": _HEIGHT, "out": whole_numbers(256 * 1024, element="u32")
    }  # fmt: skip
    names = ("histogram_gmem_atomics", "histogram_smem_atomics")
    return {("histogram", name): _launch(name, (16, 16, 1), (32, 4, 1), **values) for name in names}


def _atomics() -> dict[tuple[str, str], Launch]:
    numbers, total = whole_numbers(_NUMBERS, high=2), whole_numbers(1)
    values: dict[str, Value] = {"in": numbers, "out": total, "length": _NUMBERS}
    found = {("atomicReduction", "atomic_reduction"): _launch("atomic_reduction", (2048, 1, 1), _THREADS, **values)}
    for neighbours in (2, 4, 8, 16):
        name = f"atomic_reduction_v{neighbours}"
        found["atomicReduction", name] = _launch(name, (2048 // neighbours, 1, 1), (128, 1, 1), **values)
    words = whole_numbers(9)
    found["atomicIntrinsics", "testKernel"] = _launch("testKernel", (524288, 1, 1), _THREADS, words=words)
    words = whole_numbers(32)
    found["atomicAggregate", "k"] = _launch("aggregate", (65536, 1, 1), _THREADS, words=words, count=32)
    return found


def _sums() -> dict[tuple[str, str], Launch]:
    values: dict[str, Value] = {
        "images": 1, "channels": _CHANNELS, "size": _IMAGE, "in": whole_numbers(_CHANNELS * _IMAGE),
        "sums": whole_numbers(_CHANNELS), "squares": whole_numbers(_CHANNELS),
    }  # fmt: skip
    grid: Extent = (_CHANNELS, 1, 1)
    accuracy: dict[str, Value] = {
        "rows": _CLASSIFIED, "columns": _CLASSES, "top": _TOP, "in": floats(_CLASSIFIED, _CLASSES, fill="random"),
        "labels": whole_numbers(_CLASSIFIED, high=_CLASSES), "right": whole_numbers(1),
    }  # fmt: skip
    state = _doubles(_STATE)
    product: dict[str, Value] = {"n": _STATE, "a_re": state, "a_im": state, "b_re": state, "b_im": state}
    product |= {"sum_re": _doubles(15625), "sum_im": _doubles(15625), "offset": 0}
    return {
        ("channelSum", "ChannelSumNCHW"): _launch("ChannelSumNCHW", grid, (1, 128, 1), **values),
        ("channelSum", "ChannelSumNHWC"): _launch("ChannelSumNHWC", grid, _THREADS, **values),
        ("accuracy", "accuracy_kernel"): _launch("accuracy_kernel", (2048, 1, 1), _THREADS, **accuracy),
        ("lsqt", "gpu_find_inner_product_1"): _launch("gpu_find_inner_product_1", _blocks(_STATE), _THREADS, **product),
        ("simpleMultiDevice", "reduceKernel"): _launch(
            "reduceKernel", (32, 1, 1), _THREADS, sums=floats(8192), **{"in": floats(_SUMMED)}, n=_SUMMED
        ),
    }


def _small_steps() -> dict[tuple[str, str], Launch]:
    """Return kernels of barriers or of many tiny steps: Haar's transform, a stencil, a node, turned rows of eight."""
    signal = floats(2**_SIGNAL_LEVELS)
    haar: dict[str, Value] = {
        "in": signal, "details": signal, "averages": signal, "levels_left": _SIGNAL_LEVELS,
        "length": 2**_SIGNAL_LEVELS, "levels_done": 0, "most_levels": _HAAR_LEVELS,
    }  # fmt: skip
    line = whole_numbers(_STENCIL + 7)
    distances = whole_numbers(_NODES, _NODES, high=201, element="u32")
    paths = whole_numbers(_NODES, _NODES, element="u32")
    return {
        ("hwt1d", "dwtHaar1D"): replace(
            _launch("dwtHaar1D", _blocks(2 ** (_SIGNAL_LEVELS - 1)), _THREADS, **haar), shared_bytes=2048
        ),
        ("stencil1d", "stencil_1d"): _launch(
            "stencil_1d", _blocks(_STENCIL), _THREADS, **{"in": line}, out=whole_numbers(_STENCIL)
        ),
        ("floydwarshall", "floydWarshallPass"): _launch(
            "floydWarshallPass", (64, 64, 1), _TILE, distance=distances, path=paths, nodes=_NODES, node=0
        ),
        ("shuffle", "transpose_shfl"): _launch(
            "transpose_shfl", _blocks(_EIGHTS, 8), (8, 1, 1), out=floats(_EIGHTS), **{"in": floats(_EIGHTS)}
        ),
    }


def _strides() -> dict[tuple[str, str], Launch]:
    """Return kernels whose threads go through long loops of their own, with lanes far apart or side by side."""
    members = whole_numbers(_INTERLEAVED, 16, element="u32")
    sums: dict[str, Value] = {"to": members, "from": members, "count": _INTERLEAVED}
    return {
        ("interleave", "add_kernel_non_interleaved"): _launch(
            "add_kernel_non_interleaved", (16, 1, 1), _THREADS, **sums
        ),
        ("matrix-rotate", "rotate_matrix_parallel"): _launch(
            "rotate_matrix_parallel", (10, 1, 1), _THREADS, matrix=floats(_RINGS, _RINGS), n=_RINGS
        ),
        ("tensorAccessor", "raw_accessor_kernel"): _launch(
            "raw_accessor_kernel", (32, 1, 1), _THREADS, rows=_MATRIX, columns=_MATRIX, product=floats(_MATRIX),
            matrix=floats(_MATRIX, _MATRIX), vector=floats(_MATRIX),
        ),
    }  # fmt: skip


def _embeddings() -> dict[tuple[str, str], Launch]:
    """Return sums of batches of 1 to 256 rows, as C's ``rand`` of seed 123 gives them."""
    lengths = [number % _BATCHES + 1 for number in c_random(123, _BATCHES)]
    offsets = _listed("offsets", "i32", np.cumsum([0, *lengths], dtype=np.int32) * np.int32(_COLUMNS))
    values: dict[str, Value] = {
        "in": floats(_ROWS, _COLUMNS), "dense": floats(_BATCHES, _COLUMNS), "out": floats(_ROWS, _COLUMNS),
        "columns": _COLUMNS, "offset": offsets,
    }  # fmt: skip
    names = ("dense_esuhm", "dense_esuhm2")
    return {("dense-embedding", name): _launch(name, (_BATCHES, 1, 1), (128, 1, 1), **values) for name in names}


def c_random(seed: int, count: int) -> list[int]:
    """Return the first numbers of glibc's ``rand``: sums of those 3 and 31 places before, without the lowest bit.

    >>> c_random(1, 3)
    [1804289383, 846930886, 1681692777]
    """
    state = [seed]
    for _ in range(30):
        state.append(16807 * state[-1] % (2**31 - 1))
    state += state[:3]
    while len(state) < 344 + count:
        state.append((state[-3] + state[-31]) % 2**32)
    return [number >> 1 for number in state[344:]]


def _images() -> dict[tuple[str, str], Launch]:
    pixels = whole_numbers(_PIXELS * 4, element="u8")
    half = _POOLED // 2
    pooled: dict[str, Value] = {
        "in": floats(_POOL_IMAGES, _POOLED, _POOLED), "out": floats(_POOL_IMAGES, half, half), "step_x": 2, "step_y": 2,
        "pool_width": 2, "pool_height": 2, "in_width": _POOLED, "in_height": _POOLED, "out_width": half,
        "out_height": half,
    }  # fmt: skip
    return {
        ("gamma-correction", "gamma_correction"): _launch(
            "gamma_correction", _blocks(_PIXELS), _THREADS, pixels=pixels
        ),
        ("maxpool3d", "maxpool3d"): _launch("maxpool3d", (half // 16, half // 16, _POOL_IMAGES), _TILE, **pooled),
        ("blockAccess", "reference"): _launch(
            "to_bytes", (1088, 1, 1), _THREADS, **{"in": floats(_BYTES)}, n=_BYTES,
            out=whole_numbers(_BYTES, element="u8"),
        ),
        ("ising", "init_spins"): _launch(
            "init_spins", _blocks(_SPINS * _SPINS // 2, 128), (128, 1, 1),
            spins=whole_numbers(_SPINS * _SPINS // 2, element="i8"), random=floats(_SPINS * _SPINS // 2, fill="random"),
            nx=_SPINS, ny=_SPINS // 2,
        ),
    }  # fmt: skip


def _walsh() -> dict[tuple[str, str], Launch]:
    numbers = floats(2**_WALSH)
    values: dict[str, Value] = {"out": numbers, "in": numbers}
    return {
        ("fwt", "fwtBatch1Kernel"): replace(
            _launch("fwtBatch1Kernel", (4096, 1, 1), (512, 1, 1), **values, log2_length=11), shared_bytes=8192
        ),
        ("fwt", "fwtBatch2Kernel"): _launch("fwtBatch2Kernel", (8192, 1, 1), _THREADS, **values, stride=2**_WALSH // 4),
        ("fwt", "modulateKernel"): _launch("modulateKernel", (128, 1, 1), _THREADS, a=numbers, b=numbers, n=2**_WALSH),
    }


def _filters() -> dict[tuple[str, str], Launch]:
    """Return filters of numbers of which every second one, at random, is positive."""
    values: dict[str, Value] = {
        "to": whole_numbers(_FILTERED), "count": whole_numbers(1),
        "from": whole_numbers(_FILTERED, low=-_FILTERED // 2, high=_FILTERED // 2), "n": _FILTERED,
    }  # fmt: skip
    return {("filter", name): _launch(name, _blocks(_FILTERED), _THREADS, **values) for name in ("filter", "filter2")}


def _smoothing() -> dict[tuple[str, str], Launch]:
    """Return smoothing; bytes of 127 on average reach the threshold in boxes of 5 x 5 nearly everywhere."""
    size: dict[str, Value] = {"width": _SMOOTHED, "height": _SMOOTHED}
    image = whole_numbers(_SMOOTHED, _SMOOTHED, high=256, element="f32")
    grid: Extent = (_SMOOTHED // 16, _SMOOTHED // 16, 1)
    plane = floats(_SMOOTHED, _SMOOTHED)
    return {
        ("asmooth", "smoothingFilter"): _launch(
            "smoothingFilter", grid, _TILE, **size, threshold=_THRESHOLD, most=_MOST_RADIUS, image=image,
            box=whole_numbers(_SMOOTHED, _SMOOTHED), norm=plane,
        ),
        ("asmooth", "normalizeFilter"): _launch(
            "normalizeFilter", grid, _TILE, **size, image=plane, norm=floats(_SMOOTHED, _SMOOTHED, fill="ones")
        ),
        ("asmooth", "outFilter"): _launch(
            "outFilter", grid, _TILE, **size, image=plane, box=whole_numbers(_SMOOTHED, _SMOOTHED, low=2, high=3),
            out=plane,
        ),
    }  # fmt: skip


def _copies() -> dict[tuple[str, str], Launch]:
    state, square, stream = _doubles(_STATE), floats(_JACOBI, _JACOBI), floats(_STREAM)
    return {
        ("lsqt", "gpu_set_zero"): _launch("gpu_set_zero", _blocks(_STATE), _THREADS, n=_STATE, re=state, im=state),
        ("jacobi", "swap_data"): _launch(
            "swap_data", (_JACOBI // 16, _JACOBI // 16, 1), _TILE, **{"from": square}, to=square
        ),
        ("babelstream", "copy_kernel"): _launch("copy_kernel", _blocks(_STREAM), _THREADS, a=stream, c=stream),
    }
