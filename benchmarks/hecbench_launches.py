"""The launches of HeCBench kernels that gpuFLOPBench profiled, on our equivalents: same geometry, same sizes."""

from pathlib import Path

from kerncast.launch import Argument, Buffer, Extent, Fill, Launch, Struct, Value

SOURCE = Path(__file__).parent / "kernels" / "hecbench.cu"

_STREAM, _DOT_BLOCKS = 2**25, 256
_JACOBI = 2048
_HEAT_X, _HEAT_Y = 4096, 8192
_LAPLACE = 128
_CROSS = 10_000_000
_POINTS = 1_000_000
_LANGEVIN = 2**28
_SWISH = 10_000_000
_MINKOWSKI_M, _MINKOWSKI_N, _MINKOWSKI_K = 512, 1024, 2048
_SITES, _SITE_FLOATS, _LINKS_FLOATS = 32**4, 80, 72
_KNN, _KNN_DIMENSIONS = 4096, 68
_SLICES, _SLICE = 100_000, 784
_LAYER, _HIDDEN = 65536, 16
_STATE = 4_000_000


def floats(*shape: int, fill: str = "zeros", element: str = "f32") -> Buffer:
    """Return a buffer of floats."""
    return Buffer(element, shape, Fill(fill))


def launch(kernel: str, grid: Extent, block: Extent, **values: Value) -> Launch:
    """Return a launch of one of our equivalents."""
    arguments = tuple(Argument(name, value) for name, value in values.items())
    return Launch(source=SOURCE, kernel=kernel, grid=grid, block=block, arguments=arguments)


_THREADS: Extent = (256, 1, 1)
_TILE: Extent = (16, 16, 1)
_STREAM_GRID: Extent = (_STREAM // 256, 1, 1)
#: A unit vector along z, as the bytes of a float3.
_AXIS = Struct(bytes.fromhex("00000000000000000000803f"))

#: By program and kernel, as gpuFLOPBench names them.
LAUNCHES: dict[tuple[str, str], Launch] = {
    ("babelstream", "mul_kernel"): launch(
        "mul_kernel", _STREAM_GRID, _THREADS, b=floats(_STREAM), c=floats(_STREAM)
    ),
    **{
        ("babelstream", f"{name}_kernel"): launch(
            f"{name}_kernel", _STREAM_GRID, _THREADS, a=floats(_STREAM), b=floats(_STREAM), c=floats(_STREAM)
        )
        for name in ("add", "triad", "nstream")
    },
    ("babelstream", "dot_kernel"): launch(
        "dot_kernel", (_DOT_BLOCKS, 1, 1), _THREADS,
        a=floats(_STREAM), b=floats(_STREAM), sums=floats(_DOT_BLOCKS), n=_STREAM,
    ),
    ("jacobi", "jacobi_step"): launch(
        "jacobi_step", (_JACOBI // 16, _JACOBI // 16, 1), _TILE,
        next=floats(_JACOBI, _JACOBI), now=floats(_JACOBI, _JACOBI), error=floats(1),
    ),
    ("heat2d", "dev_lapl_iter"): launch(
        "dev_lapl_iter", (_HEAT_X * _HEAT_Y // 256, 1, 1), _THREADS,
        out=floats(_HEAT_Y, _HEAT_X), **{"in": floats(_HEAT_Y, _HEAT_X)}, delta=0.1, norm=0.6, nx=_HEAT_X, ny=_HEAT_Y,
    ),
    ("laplace3d", "laplace3d"): launch(
        "laplace3d", (_LAPLACE // 32, _LAPLACE // 8, 1), (32, 8, 1), nx=_LAPLACE, ny=_LAPLACE, nz=_LAPLACE,
        pitch=_LAPLACE, **{"in": floats(_LAPLACE, _LAPLACE, _LAPLACE)}, out=floats(_LAPLACE, _LAPLACE, _LAPLACE),
    ),
    ("cross", "cross_kernel"): launch(
        "cross_kernel", (39063, 1, 1), _THREADS, rows=_CROSS, out=floats(_CROSS, 3), a=floats(_CROSS, 3),
        b=floats(_CROSS, 3), out_stride=1, a_stride=1, b_stride=1,
    ),
    ("cross", "cross3_kernel"): launch(
        "cross3_kernel", (39063, 1, 1), _THREADS, rows=_CROSS, out=floats(_CROSS, 3), a=floats(_CROSS, 3),
        b=floats(_CROSS, 3),
    ),
    ("rodrigues", "rotate"): launch(
        "rotate", (3907, 1, 1), _THREADS, n=_POINTS, angle=0.5, w=_AXIS, points=floats(_POINTS, 3)
    ),
    ("rodrigues", "rotate2"): launch(
        "rotate2", (3907, 1, 1), _THREADS, n=_POINTS, angle=0.5, w=_AXIS, points=floats(_POINTS, 4)
    ),
    ("langevin", "k2"): launch("k2", (_LANGEVIN // 256, 1, 1), _THREADS, a=floats(_LANGEVIN), o=floats(_LANGEVIN)),
    ("swish", "SwishKernel"): launch(
        "SwishKernel", (39063, 1, 1), _THREADS, n=_SWISH, x=floats(_SWISH), y=floats(_SWISH)
    ),
    ("swish", "SwishGradientKernel"): launch(
        "SwishGradientKernel", (39063, 1, 1), _THREADS, n=_SWISH, x=floats(_SWISH), y=floats(_SWISH),
        dy=floats(_SWISH), dx=floats(_SWISH),
    ),
    ("minkowski", "minkowski"): launch(
        "minkowski", (_MINKOWSKI_K // 16, _MINKOWSKI_M // 16, 1), _TILE, a=floats(_MINKOWSKI_M, _MINKOWSKI_N),
        b=floats(_MINKOWSKI_N, _MINKOWSKI_K, fill="random"), c=floats(_MINKOWSKI_M, _MINKOWSKI_K), p=1.0, inverse=1.0,
    ),
    ("su3", "k_mat_nn"): launch(
        "k_mat_nn", (_SITES, 1, 1), (128, 1, 1), a=floats(_SITES, _SITE_FLOATS), b=floats(_LINKS_FLOATS),
        c=floats(_SITES, _SITE_FLOATS), sites=_SITES,
    ),
    ("knn", "cuComputeDistanceGlobal"): launch(
        "cuComputeDistanceGlobal", (_KNN // 16, _KNN // 16, 1), _TILE, a=floats(_KNN_DIMENSIONS, _KNN), wa=_KNN,
        b=floats(_KNN_DIMENSIONS, _KNN), wb=_KNN, dim=_KNN_DIMENSIONS, ab=floats(_KNN, _KNN),
    ),
    ("softmax", "softMax2"): launch(
        "softMax2", (12500, 1, 1), _THREADS, slices=_SLICES, length=_SLICE,
        **{"in": floats(_SLICES, _SLICE, fill="random")}, out=floats(_SLICES, _SLICE),
    ),
    ("backprop", "kernel_adjust_weights"): launch(
        "kernel_adjust_weights", (1, _LAYER // 16, 1), _TILE, layer=floats(_LAYER + 1),
        weights=floats(_LAYER + 1, _HIDDEN + 1), delta=floats(_HIDDEN + 1), old=floats(_LAYER + 1, _HIDDEN + 1),
    ),
    ("lsqt", "gpu_add_state"): launch(
        "gpu_add_state", (15625, 1, 1), _THREADS, n=_STATE,
        **{name: floats(_STATE, element="f64") for name in ("in_re", "in_im", "out_re", "out_im")},
    ),
}  # fmt: skip
