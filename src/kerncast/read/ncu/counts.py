"""Counts of a launch that Nsight Compute profiled: instructions, and memory at each level."""

from collections.abc import Iterable, Iterator

from kerncast.caveats import Caveat, CaveatKind
from kerncast.errors import InputError
from kerncast.gpu import GPU, WARP_SIZE
from kerncast.profiles import SECTOR_BYTES, Count, Counts, FloatMix, Origin
from kerncast.profiles.counts import (
    ATOMIC_THREADS,
    DRAM_BYTES,
    GLOBAL_BYTES_REQUESTED,
    INSTRUCTIONS,
    L1_BYTES,
    L2_BYTES,
    LOCAL_BYTES_REQUESTED,
    PIPES,
    SHARED_BYTES,
    SHARED_REQUESTS,
    SHARED_WAVEFRONTS,
    WORKS,
    access_name,
    pipe_instructions,
    work_threads,
)
from kerncast.read.bounded_text import LEAST_SECONDS, MOST_SECONDS
from kerncast.read.ncu.rows import NcuRow, expected_units
from kerncast.units import KILO, NANOSECOND, PERCENT

# What the metrics of one launch say about it, whichever of its forms a profile holds.
#
# ``--metrics`` gives totals (``.sum``); the sections that ``--set full`` collects give many of the same counters only
# per cycle or per second, which times the cycles or the time is the total again. Reports also count each opcode.


_DURATIONS = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max", "gpu__time_active.sum")
_CYCLES = (
    "smsp__cycles_elapsed.avg", "smsp__cycles_elapsed.max", "sm__cycles_elapsed.avg", "sm__cycles_elapsed.max",
    "gpc__cycles_elapsed.max", "gpc__cycles_elapsed.avg",
)  # fmt: skip
_CLOCKS = (
    "sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second", "gpc__cycles_elapsed.avg.per_second",
)  # fmt: skip
_ISSUED = (
    "smsp__inst_executed.sum", "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed",
)  # fmt: skip
#: No SM was ever clocked outside these: what is, comes from a time that does not belong to the cycles.
_LEAST_CLOCK_HZ, _MOST_CLOCK_HZ = 1e8, 5e9
#: Letters of the opcodes by width, and names of the three operations.
_LETTERS = ((16, "h"), (32, "f"), (64, "d"))
_OPERATIONS = ("add", "mul", "fma")
#: Where the opcodes of a report stand; FADD32I has an immediate operand.
OPCODE_COUNTS = "sass__thread_inst_executed_true_per_opcode"


class NcuCounts:
    """Answers for one launch; what needs saying about an answer goes into ``notes``."""

    def __init__(self, row: NcuRow, where: str) -> None:
        """Take the metrics; raises InputError for a negative one, as none that is read here can be."""
        self.values = {metric.name: metric.value for metric in row.metrics}
        self.units = {metric.name: metric.unit for metric in row.metrics}
        self.where = where
        self.empties_caches = row.empties_caches
        self.notes: list[Caveat] = []
        self.is_from_rates = False
        self.totals = frozenset(name.removesuffix(".sum") for name in self.values if name.endswith(".sum"))
        self.rates = dict(self._rates())

    def value(self, *names: str) -> float | None:
        """Return the first of these metrics that the profile has; raises InputError where it is negative."""
        for name in names:
            value = self.values.get(name)
            if value is not None:
                self._check(name, value)
                return value
        return None

    def _check(self, name: str, value: float) -> None:
        if value < 0:
            raise InputError(f"{name} is {value:g}", where=self.where, cure="Take the profile again.")
        unit, known = self.units[name], expected_units(name)
        if unit not in known:
            units = " or ".join(repr(each) for each in sorted(known)[:4])
            cure = f"Its base unit is {units}: write the file again with ncu --print-units base."
            raise InputError(f"{name} is in the unit {ascii(unit)[:40]}", where=self.where, cure=cure)

    def seconds(self) -> float | None:
        """Return the duration of the kernel."""
        nanoseconds = self.value(*_DURATIONS)
        if nanoseconds:
            return self._possible(nanoseconds * NANOSECOND)
        cycles, clock = self.value(*_CYCLES), self.value(*_CLOCKS)
        if not cycles or not clock:
            return None
        self.notes.append(Caveat.of(CaveatKind.TIME_FROM_CYCLES))
        return self._possible(cycles / clock)

    def _possible(self, seconds: float) -> float:
        if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
            cure = f"Times are from {LEAST_SECONDS:g} to {MOST_SECONDS:g} s: take the profile again."
            raise InputError(f"the kernel took {seconds:g} s", where=self.where, cure=cure)
        return seconds

    def clock_hz(self, schedulers: int) -> float | None:
        """Return the clock of the SMs: measured, else cycles over time; ``schedulers`` are those of the whole GPU."""
        clock = self.value(*_CLOCKS)
        cycles, nanoseconds = self.value(*_CYCLES) or self._issue_cycles(schedulers), self.value(*_DURATIONS)
        if clock is None and cycles and nanoseconds:
            clock = cycles / (nanoseconds * NANOSECOND)
        return clock if clock is not None and _LEAST_CLOCK_HZ <= clock <= _MOST_CLOCK_HZ else None

    def _issue_cycles(self, schedulers: int) -> float | None:
        """Return the elapsed cycles by the instructions and by how often schedulers issue one.

        Tuners collect counters at a clock that the profiler holds, and times without it: these cycles belong to both.
        """
        instructions, issuing, active = (self.value(name) for name in _ISSUED)
        if not instructions or not issuing or not active:
            return None
        return instructions / (schedulers * (issuing * PERCENT) * (active * PERCENT))

    def total(self, *stems: str) -> float | None:
        """Return the total of the first of these counters that the profile has, else of the first with a rate."""
        for stem in stems:
            if stem in self.totals:
                return self.value(f"{stem}.sum")
        for stem in stems:
            if stem in self.rates:
                name, whole = self.rates[stem]
                self.is_from_rates = True
                return (self.value(name) or 0.0) * whole
        return None

    def sum_of(self, *stems: str) -> float | None:
        """Return the sum of several counters, or None where one of them is missing."""
        totals = [self.total(stem) for stem in stems]
        return None if None in totals else sum(total for total in totals if total is not None)

    def first(self, *ways: float | None) -> Count | None:
        """Return the first known of several ways to a count."""
        return next((Count.exact(way) for way in ways if way is not None), None)

    def float_mix(self, bits: int) -> FloatMix | None:
        """Return additions, multiplications and fused multiply-adds, or None where one of them is missing."""
        letter = dict(_LETTERS)[bits]
        counts = [self._operations(letter, operation) for operation in _OPERATIONS]
        if None in counts:
            return None
        return FloatMix(bits, *(Count.exact(count) for count in counts if count is not None))

    def flops(self, bits: int) -> Count | None:
        """Return the operations of one precision where the instructions are known only together, within a factor of 2.

        One metric counts instructions of all three kinds: each is one operation, or two where it is fused.
        """
        letter = dict(_LETTERS)[bits]
        joint = "_".join(f"{letter}{operation}" for operation in _OPERATIONS)
        instructions = self.total(*_stems(f"sass_thread_inst_executed_ops_{joint}_pred_on"))
        if instructions is None:
            return None
        fused = self._operations(letter, "fma")
        if fused is not None:
            return Count.exact(instructions + fused)
        if instructions:
            self.notes.append(Caveat.of(CaveatKind.OPERATIONS_COUNTED_TOGETHER, f"FP{bits}"))
        return Count(1.5 * instructions, instructions, 2 * instructions)

    def achieved_occupancy(self, max_warps_per_sm: int, schedulers: int) -> float | None:
        """Return resident warps over the most that an SM holds."""
        share = self.value("sm__warps_active.avg.pct_of_peak_sustained_active")
        warps = self.value("sm__warps_active.avg.per_cycle_active")
        of_scheduler = self.value("smsp__warps_active.avg.per_cycle_active")
        if share is not None:
            occupancy = share * PERCENT
        elif warps is not None:
            occupancy = warps / max_warps_per_sm
        elif of_scheduler is not None:
            occupancy = of_scheduler * schedulers / max_warps_per_sm
        else:
            return None
        return min(1.0, occupancy)

    def active_threads(self) -> float | None:
        """Return the mean number of active threads per warp instruction."""
        ratio = self.value("smsp__thread_inst_executed_per_inst_executed.ratio")
        if ratio is None:
            threads, warps = self.thread_instructions(), self.warp_instructions()
            ratio = threads / warps if threads is not None and warps else None
        return ratio if ratio is not None and 0 < ratio <= WARP_SIZE else None

    def warp_instructions(self) -> float | None:
        """Return machine instructions, one per warp."""
        return self._whole("inst_executed")

    def thread_instructions(self) -> float | None:
        """Return machine instructions, one per active thread."""
        return self._whole("thread_inst_executed")

    def threads_on(self) -> float | None:
        """Return machine instructions, one per active thread whose predicate holds."""
        counted = self._whole("thread_inst_executed_pred_on", "thread_inst_executed_true")
        ratio, warps = (
            self.value("smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"),
            self.warp_instructions(),
        )
        return ratio * warps if counted is None and ratio is not None and warps is not None else counted

    def bytes_of(self, unit: str, parts: Iterable[tuple[str, ...]]) -> float | None:
        """Return the bytes of a level: counted, or 32 for each sector; the first of these sums that is whole."""
        for part in parts:
            for what, size in (("bytes", 1), ("sectors", SECTOR_BYTES)):
                total = self.sum_of(*(f"{unit}_{what}{suffix}" for suffix in part))
                if total is not None:
                    return total * size
        return None

    def _rates(self) -> Iterator[tuple[str, tuple[str, float]]]:
        """Yield the counters of which there is a rate, with its name and what it is to be multiplied by."""
        nanoseconds, cycles = self.value(*_DURATIONS), self.value(*_CYCLES)
        for rollup, whole in ((".sum.per_cycle_elapsed", cycles), (".sum.per_second", (nanoseconds or 0) * NANOSECOND)):
            if whole:  # the later ones win: time is measured in the same pass
                yield from ((name.removesuffix(rollup), (name, whole)) for name in self.values if name.endswith(rollup))

    def _whole(self, name: str, in_source: str | None = None) -> float | None:
        """Return a count of instructions: of the hardware, else the sum over the lines of a report's source page."""
        found = self.total(*_stems(name), *_stems(f"sass_{name}"))
        return self.value(in_source or name) if found is None else found

    def _operations(self, letter: str, operation: str) -> float | None:
        name = f"sass_thread_inst_executed_op_{letter}{operation}_pred_on"
        count = self.total(*_stems(name))
        if count is None and operation == "fma":
            twice = self.value(f"derived__smsp__{name}_x2")
            cycles = self.value(*_CYCLES)
            count = twice / 2 * cycles if twice is not None and cycles else None
        if count is None:
            return self._opcodes(letter, operation)
        # Blackwell: one instruction for two additions.
        paired = self.total(*_stems(f"sass_thread_inst_executed_op_{letter}{operation}2_pred_on"))
        return count + 2 * (paired or 0.0)

    def _opcodes(self, letter: str, operation: str) -> float | None:
        opcode = f"{letter}{operation}".upper()
        if OPCODE_COUNTS not in self.values:
            return None
        if letter == "h":  # packed; how many of the halves are used is not known
            packed = [value for name, value in self.values.items() if name.startswith(f"{OPCODE_COUNTS}.{opcode}")]
            return 0.0 if packed and not any(packed) else None
        plain = self.value(f"{OPCODE_COUNTS}.{opcode}")
        if plain is None:
            return None
        return plain + sum(
            times * (self.value(f"{OPCODE_COUNTS}.{opcode}{form}") or 0.0) for form, times in (("32I", 1), ("2", 2))
        )


def _stems(name: str) -> tuple[str, str]:
    return f"smsp__{name}", f"sm__{name}"


_SHARED_BYTES = ("smsp__sass_data_bytes_mem_shared", "sm__sass_data_bytes_mem_shared")
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
_LSU = "l1tex__t_{}_pipe_lsu_mem_{}_op_{}"
_ATOMIC_REQUESTS = (
    (_LSU.format("requests", "global", "atom"), "smsp__inst_executed_op_global_atom"),
    (_LSU.format("requests", "global", "red"), "smsp__inst_executed_op_global_red"),
    ("smsp__inst_executed_op_shared_atom", "smsp__inst_executed_op_shared_atom"),
)
#: What a level is asked for, in the forms that a profile may hold it; parts are added.
_L1_PARTS = (
    ("",),
    ("_pipe_lsu_mem_global_op_ld", "_pipe_lsu_mem_global_op_st", "_pipe_lsu_mem_local_op_ld",
     "_pipe_lsu_mem_local_op_st"),
)  # fmt: skip
_L2_PARTS = (("",), ("_op_read", "_op_write", "_op_atom", "_op_red"), ("_op_read", "_op_write"))
_DRAM_PARTS = (("_read", "_write"), ("_op_read", "_op_write"), ("",))
_DRAM_BUSY = (
    "dram__bytes.sum.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
)


def dram_bytes(counts: NcuCounts, gpu: GPU) -> Count | None:
    """Return the bytes that DRAM moved: counted, else its busy share of the peak times the peak and the time."""
    counted = counts.first(counts.bytes_of("dram_", _DRAM_PARTS), counts.bytes_of("fbpa__dram", _DRAM_PARTS))
    if counted is not None:
        return counted
    busy, seconds = counts.value(*_DRAM_BUSY), counts.seconds()
    if busy is None or seconds is None:
        return None
    counts.notes.append(Caveat.of(CaveatKind.DRAM_BYTES_FROM_SHARE))
    clock, highest = (
        counts.value("dram__cycles_elapsed.avg.per_second"),
        counts.value("device__attribute_memory_clock_rate"),
    )
    if highest and not counts.units["device__attribute_memory_clock_rate"]:
        highest *= KILO  # CUDA has this attribute in kHz
    of_peak = clock / highest if clock and highest else 1.0
    # A clock above the highest is of another kind: twice the data rate, say.
    of_peak = of_peak if 0 < of_peak <= 1 else 1.0
    most = busy * PERCENT * of_peak * gpu.dram_bytes_per_s * seconds
    return Count.exact(most)


def memory_counts(counts: NcuCounts, dram: Count | None) -> Counts:
    """Return requests, sectors and the bytes of each level; what only an executor sees is unknown: the working set."""
    found: dict[str, Count | None] = {
        access_name("global", operation, quantity): counts.first(
            counts.total(_LSU.format(quantity, "global", operation))
        )
        for operation in ("ld", "st")
        for quantity in ("requests", "sectors")
    }
    found |= {
        GLOBAL_BYTES_REQUESTED: counts.first(
            counts.total("smsp__sass_data_bytes_mem_global", "sm__sass_data_bytes_mem_global")
        ),
        SHARED_REQUESTS: counts.first(
            counts.sum_of(*(f"smsp__inst_executed_op_shared_{operation}" for operation in ("ld", "st", "atom"))),
            counts.total("smsp__sass_inst_executed_op_shared", "smsp__inst_executed_op_shared"),
        ),
        ATOMIC_THREADS: _atomic_operations(counts),
        LOCAL_BYTES_REQUESTED: _local_bytes(counts),
        L1_BYTES: counts.first(counts.bytes_of("l1tex__t", _L1_PARTS), _theoretical_bytes(counts)),
        SHARED_BYTES: counts.first(
            counts.total(*_SHARED_BYTES),
            *(counts.sum_of(f"{stem}_op_ld", f"{stem}_op_st") for stem in _SHARED_BYTES),
        ),
        SHARED_WAVEFRONTS: counts.first(
            counts.total(_WAVEFRONTS), counts.sum_of(f"{_WAVEFRONTS}_op_ld", f"{_WAVEFRONTS}_op_st")
        ),
        L2_BYTES: counts.first(counts.bytes_of("lts__t", _L2_PARTS)),
        DRAM_BYTES: dram,
    }
    return Counts.of(Origin.PROFILED, found)


def instruction_counts(counts: NcuCounts) -> Counts:
    """Return the warp instructions, those of each pipe, and those of each kind by threads."""
    found = {INSTRUCTIONS: counts.warp_instructions()}
    found |= {pipe_instructions(pipe): counts.total(*_stems(f"inst_executed_pipe_{pipe}")) for pipe in PIPES}
    found |= {
        work_threads(work): counts.total(*_stems(f"sass_thread_inst_executed_op_{work}_pred_on")) for work in WORKS
    }
    return Counts.of(Origin.PROFILED, {name: counts.first(total) for name, total in found.items()})


def atomic_requests(counts: NcuCounts) -> float | None:
    """Return warp instructions that are atomics, of those kinds that the profile counts."""
    known = [total for names in _ATOMIC_REQUESTS if (total := counts.total(*names)) is not None]
    return sum(known) if known else None


def _atomic_operations(counts: NcuCounts) -> Count | None:
    """Return atomics, one per thread: a profile counts one per warp, so they are known only where there are none."""
    totals = [counts.total(*names) for names in _ATOMIC_REQUESTS]
    return Count.exact(0.0) if all(total == 0 for total in totals) else None


def _local_bytes(counts: NcuCounts) -> Count | None:
    sectors = counts.sum_of(_LSU.format("sectors", "local", "ld"), _LSU.format("sectors", "local", "st"))
    return counts.first(
        counts.total("smsp__sass_data_bytes_mem_local", "sm__sass_data_bytes_mem_local"),
        None if sectors is None else sectors * SECTOR_BYTES,
    )


def _theoretical_bytes(counts: NcuCounts) -> float | None:
    """Return what the source page of a report sums over the memory instructions."""
    sectors = counts.value("memory_l2_theoretical_sectors_global")
    if sectors is None:
        return None
    return (sectors + (counts.value("memory_l2_theoretical_sectors_local") or 0.0)) * SECTOR_BYTES
