"""Which counters of a profiler are held against which metrics of ours, for each source of measurements."""

from collections.abc import Mapping
from dataclasses import dataclass

Metrics = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Counter:
    """One quantity, as a profiler counts it and as we do: both are sums."""

    name: str
    measured: tuple[str, ...]
    """of these names those that a case has are added"""
    ours: tuple[str, ...]
    """of these metrics; a product where a name holds ``*``, n times where one starts with n and a space"""

    def value(self, metrics: Metrics) -> float | None:
        """Return our value; None where a metric is missing."""
        total = 0.0
        for term in self.ours:
            product = 1.0
            for factor in term.split("*"):
                weight, _, name = factor.strip().rpartition(" ")
                if name not in metrics:
                    return None
                product *= metrics[name] * float(weight or 1)
            total += product
        return total


def _op(name: str) -> str:
    return f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum"


def _same(name: str, metric: str) -> Counter:
    return Counter(name, (metric,), (metric,))


_GLOBAL = "pipe_lsu_mem_global_op"
_LOADS, _STORES = f"{_GLOBAL}_ld", f"{_GLOBAL}_st"
_FP32_FLOPS = (_op("fadd"), _op("fmul"), f"2 {_op('ffma')}")
_FP64_FLOPS = (_op("dadd"), _op("dmul"), f"2 {_op('dfma')}")
_ALL_WRITTEN = ("dram__bytes_write.sum", "kerncast__l2_dirty_bytes_left.sum")

#: nvprof on Kepler and Maxwell. Loads and stores are Kepler's events where it has them, else Maxwell's.
_NVPROF = (
    Counter("FP32 FLOPs", ("floating_point_operations_single_precision",), _FP32_FLOPS),
    Counter("FP32 fused multiply-adds", ("floating_point_operations_single_precision_fma",), (_op("ffma"),)),
    Counter("global load requests", ("gld_request", "global_load"), (f"l1tex__t_requests_{_LOADS}.sum",)),
    Counter("global store requests", ("gst_request", "global_store"), (f"l1tex__t_requests_{_STORES}.sum",)),
    Counter("shared load requests", ("shared_load",), ("smsp__inst_executed_op_shared_ld.sum",)),
    Counter("shared store requests", ("shared_store",), ("smsp__inst_executed_op_shared_st.sum",)),
    Counter(
        "shared load wavefronts", ("shared_load_transactions",),
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",),
    ),
    Counter(
        "shared store wavefronts", ("shared_store_transactions",),
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",),
    ),
    Counter("warp instructions", ("inst_executed",), ("smsp__inst_executed.sum",)),
    Counter("thread instructions", ("thread_inst_executed",), ("smsp__thread_inst_executed.sum",)),
    Counter(
        "thread instructions, predicate on", ("not_predicated_off_thread_inst_executed",),
        ("smsp__thread_inst_executed_pred_on.sum",),
    ),
    Counter("FP32 instructions", ("fp_instructions_single",), (_op("fp32"),)),
    Counter("integer instructions", ("integer_instructions",), (_op("integer"),)),
    Counter("control instructions", ("control_flow_instructions",), (_op("control"),)),
    Counter("memory instructions", ("load_store_instructions",), (_op("memory"),)),
    Counter("conversion instructions", ("bit_convert_instructions",), (_op("conversion"),)),
    Counter("misc instructions", ("misc_instructions",), (_op("misc"),)),
    Counter("branches", ("branch",), ("smsp__inst_executed_op_branch.sum",)),
    Counter("divergent branches", ("divergent_branch",), ("kerncast__divergent_branches.sum",)),
    Counter(
        "L2 sectors read", ("l2_read_transactions_l1_read_requests", "l2_transactions_texture_reads"),
        ("lts__t_sectors_op_read.sum",),
    ),
    Counter("L2 sectors written", ("l2_write_transactions",), ("lts__t_sectors_op_write.sum",)),
    Counter("DRAM sectors read", ("device_memory_read_transactions",), ("dram__sectors_read.sum",)),
    Counter(
        "DRAM sectors written, and left in L2", ("device_memory_write_transactions",),
        tuple(f"0.03125 {name}" for name in _ALL_WRITTEN),
    ),
)  # fmt: skip
#: Lines of 128 bytes are what nvprof calls a transaction on Kepler; on Maxwell it counts passes of the texture unit.
_KEPLER_LINES = tuple(
    Counter(
        f"global {word} lines of 128 bytes", (f"global_{word}_transactions",),
        (f"kerncast__lines_per_request_global_{operation}.ratio * l1tex__t_requests_{_GLOBAL}_{operation}.sum",),
    )
    for word, operation in (("load", "ld"), ("store", "st"))
)  # fmt: skip
_MAXWELL_SECTORS = (
    Counter("global store sectors", ("global_store_transactions",), (f"l1tex__t_sectors_{_STORES}.sum",)),
)

_NCU = (
    *(
        _same(f"{kind} instructions", _op(kind))
        for kind in ("fp32", "integer", "control", "memory", "conversion", "misc")
    ),
    _same("warp instructions", "smsp__inst_executed.sum"),
    _same("active threads per instruction", "smsp__thread_inst_executed_per_inst_executed.ratio"),
    _same("global load requests", f"l1tex__t_requests_{_LOADS}.sum"),
    _same("shared load wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
    _same("shared store wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"),
    _same("local load sectors", "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"),
    _same("local store sectors", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"),
    _same("L2 sectors read", "lts__t_sectors_op_read.sum"),
    _same("L2 sectors written", "lts__t_sectors_op_write.sum"),
    _same("DRAM sectors read", "dram__sectors_read.sum"),
    _same("DRAM sectors written", "dram__sectors_write.sum"),
)
_FLOPBENCH = (
    Counter("FP32 FLOPs", ("fp32_flops",), _FP32_FLOPS),
    Counter("FP64 FLOPs", ("fp64_flops",), _FP64_FLOPS),
    Counter("integer instructions", ("integer",), (_op("integer"),)),
    Counter("DRAM bytes", ("dram_bytes",), ("dram__bytes_read.sum", "dram__bytes_write.sum")),
)

#: By source and, where it matters, GPU.
COUNTERS: dict[str, tuple[Counter, ...]] = {
    "Kepler": _NVPROF + _KEPLER_LINES,
    "Maxwell": _NVPROF + _MAXWELL_SECTORS,
    "Turing convolution": _NCU,
    "Turing coulomb": _NCU,
    "Ampere": _FLOPBENCH,
}
