"""NOUN Caveat: one thing that a reader of a number should know, as data; ``report/words.py`` has the words."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class CaveatKind(StrEnum):
    """The kinds of caveats; the value is part of the JSON that kerncast prints."""

    # The GPUs that names and files mean.
    GPU_NAME_AMBIGUOUS = "gpu-name-ambiguous"
    """A name fits several GPUs; subject: the name."""
    GPU_FOUND_BY_SMS = "gpu-found-by-sms"
    """A profile shows its GPU only by its SMs; subject: the GPU."""
    GPU_NAMED_OTHERWISE = "gpu-named-otherwise"
    """A profile names another GPU than the user; subject: the user's GPU."""
    CAPABILITY_DIFFERS = "capability-differs"
    """A profile shows another compute capability than the user's GPU has; subject: the GPU."""

    # Compiling.
    COMPILED_WITHOUT_KEPLER = "compiled-without-kepler"
    """NVRTC 11 is missing, so code of a newer architecture is used; subject: the architecture asked for."""
    COMPILED_FOR_OTHER_KEPLER = "compiled-for-other-kepler"
    """No installable compiler knows an early Kepler; subject: the architecture asked for."""
    COMPILED_WITH_FEWER_REGISTERS = "compiled-with-fewer-registers"
    """The code is held to the registers of an older architecture; subject: that architecture."""
    COMPILED_FOR_NEAREST = "compiled-for-nearest"
    """The compiler does not know an architecture; subject: the architecture asked for."""
    HEADER_MISSING = "header-missing"
    """An empty header stands in for one that was not found; subject: its name."""
    HEADERS_FROM_MAKEFILE = "headers-from-makefile"
    """Headers are from folders that a Makefile names; subject: the Makefile."""
    FAST_MATH_IGNORED = "fast-math-ignored"
    """A Makefile asks for approximate functions; subject: the Makefile."""
    MACROS_FROM_MAKEFILE = "macros-from-makefile"
    """A source compiles only with the macros of a Makefile; subject: the Makefile."""
    FIRST_OF_SEVERAL_VALUES = "first-of-several-values"
    """A Makefile gives macros several values; subject: the macros."""

    # Executing a sample of blocks.
    SCALED_FROM_SAMPLE = "scaled-from-sample"
    """Not all blocks were executed."""
    RARE_BLOCKS_MISSED = "rare-blocks-missed"
    """What few blocks do may be missing from the counts."""
    STALE_READS = "stale-reads"
    """Blocks that did not run write what the executed ones read; subject: the buffers."""
    INTERPRETED = "interpreted"
    """A kernel was too large for the compiler of this CPU."""
    PRINTF_LEFT_OUT = "printf-left-out"
    """printf costs time that is not forecast."""
    LANES_ABSENT = "lanes-absent"
    """A warp-wide instruction names threads that are elsewhere; subject: the instruction."""
    VARIABLE_COPIED = "variable-copied"
    """The host copies literal values to a variable; subject: the variable."""
    VARIABLE_SET_BY_HOST = "variable-set-by-host"
    """The host sets a variable that is zero here; subject: the variable."""
    INITIAL_VALUE_REPLACED = "initial-value-replaced"
    """The host replaces the initial value that a variable has here; subject: the variable."""
    CONSTANT_NEVER_SET = "constant-never-set"
    """Nothing sets a __constant__ variable; subject: the variable."""
    CACHES_NOT_SIMULATED = "caches-not-simulated"
    """The profile lacks the traffic of the caches."""
    WARP_STATES_NOT_SIMULATED = "warp-states-not-simulated"
    """The profile lacks what warps wait for."""

    # Machine code.
    MACHINE_CODE_ESTIMATED = "machine-code-estimated"
    """Machine instructions are estimated from PTX."""
    RARE_CODE_NOT_EXECUTED = "rare-code-not-executed"
    """Rare cases of division and square root are left out."""
    PREDICATES_NOT_COUNTED = "predicates-not-counted"
    """A profile lacks the threads that predicates switch off."""

    # Reading files of profilers, tuners and people.
    COUNTS_DECLARED = "counts-declared"
    """Somebody wrote the counts by hand."""
    TIME_FROM_CYCLES = "time-from-cycles"
    """A profile holds cycles and a clock instead of a time."""
    OPERATIONS_COUNTED_TOGETHER = "operations-counted-together"
    """Additions, multiplications and FMAs are one count; subject: the precision."""
    DRAM_BYTES_FROM_SHARE = "dram-bytes-from-share"
    """DRAM bytes are from the share of time that DRAM was busy."""
    COUNTS_FROM_RATES = "counts-from-rates"
    """A profile holds rates instead of counts."""
    TIME_MISSING = "time-missing"
    """A profile holds no time."""
    OPERATIONS_NOT_SPLIT = "operations-not-split"
    """Additions, multiplications and FMAs are not known apart; subject: the precisions."""
    HALVES_PERHAPS_ONCE = "halves-perhaps-once"
    """A packed FP16 operation may be counted as one."""
    TENSOR_CORES_NOT_COUNTED = "tensor-cores-not-counted"
    """Operations of tensor cores are not among the counted ones."""
    LOCAL_MEMORY_USED = "local-memory-used"
    """Spills and local arrays depend on the compiler."""
    ATOMICS_PER_WARP = "atomics-per-warp"
    """A profile counts atomics by warps."""
    CLOCK_HELD_AT_BASE = "clock-held-at-base"
    """The profiler held the clock down; subject: the GPU."""
    CACHES_EMPTIED = "caches-emptied"
    """The profiler empties caches that would hold the data; subject: the GPU."""
    SIZE_ONLY = "size-only"
    """A file tells how many blocks or threads, not in which shape; subject: grid, block or both."""
    MEANS_OVER_LAUNCHES = "means-over-launches"
    """Counters are means over launches."""
    L1_TAKEN_AS_UNUSED = "l1-taken-as-unused"
    """L1 of Kepler is taken to cache no global loads."""
    TUNED_WITH = "tuned-with"
    """A tuner measured a configuration; subject: its parameters."""
    OPERATIONS_FROM_RATE = "operations-from-rate"
    """A tuner's file has a rate of unknown precision."""
    CONFIGURATIONS_LEFT_OUT = "configurations-left-out"
    """The source has no launch of some configurations."""
    GEOMETRY_FROM_SOURCE = "geometry-from-source"
    """A file lacks grid or block."""
    GRID_FROM_PROBLEM_SIZE = "grid-from-problem-size"
    """A tuner's file lacks the divisors of the grid."""
    COUNTERS_INCOMPLETE = "counters-incomplete"
    """A run ended before the counters were complete."""

    # Evidence of a forecast.
    LAUNCH_NOT_IN_SOURCE = "launch-not-in-source"
    """The source has no launch like the profile's."""
    TUNED_LAUNCH_NOT_IN_SOURCE = "tuned-launch-not-in-source"
    """The source has no launch like the profile's, tuned as that one."""
    COUNTED_BY_EXECUTION = "counted-by-execution"
    """Counts that a profile lacks are from executing the source; subject: their names."""
    COUNTS_AND_TIME_APART = "counts-and-time-apart"
    """Counts and time are of different GPUs."""
    TIME_ELSEWHERE_UNUSED = "time-elsewhere-unused"
    """The profile's own time is used instead of one that was given; subject: the GPUs given."""
    MEASURED_TIME_UNUSED = "measured-time-unused"
    """A model makes no use of a measured time; subject: the model."""
    NOT_SIMULATED = "not-simulated"
    """Another model stands in for the simulation; subject: that model."""
    OTHER_MODEL_USED = "other-model-used"
    """Another model stands in for one that cannot be used; subject: that model."""
    FORCED = "forced"
    """The GPU cannot run a launch that is forecast all the same; subject: the GPU."""

    # Intervals.
    INTERVAL_CALIBRATED = "interval-calibrated"
    """The interval has the width of measured errors; subject: what was measured."""
    INTERVAL_EXTRAPOLATED = "interval-extrapolated"
    """No measurement tells the width of the interval at this level."""
    INTERVAL_UNCALIBRATED = "interval-uncalibrated"
    """The width of the interval is an assumption."""
    INTERVAL_PUBLISHED = "interval-published"
    """The interval is the one of a paper; subject: its measured coverage."""
    CODE_OF_OTHER_GENERATION = "code-of-other-generation"
    """The counts are of another generation's code; subject: its architecture."""
    TIME_OF_OTHER_GENERATION = "time-of-other-generation"
    """The time was measured on another generation; subject: its compute capability."""
    MICROARCHITECTURE_NOT_MEASURED = "microarchitecture-not-measured"
    """No GPU of a microarchitecture is among the measured cases; subject: the microarchitecture."""
    TIME_AS_MEASURED = "time-as-measured"
    """The forecast is the measured time itself; subject: the GPU."""

    # Rates and maxima of GPUs.
    FP16_RATE_OF_FP32 = "fp16-rate-of-fp32"
    """A GPU has no FP16 rate of its own."""
    RESOURCES_LEFT_OUT = "resources-left-out"
    """A count or a rate is unknown; subject: the resources."""
    DRAM_RATE_UNKNOWN = "dram-rate-unknown"
    """The GPU's sustained DRAM bandwidth is unknown."""
    DRAM_RATE_USUAL = "dram-rate-usual"
    """The GPU's sustained DRAM bandwidth is a usual share."""
    L2_RATE_UNKNOWN = "l2-rate-unknown"
    """The GPU's L2 bandwidth is unknown."""
    MAXIMA_UNMEASURED = "maxima-unmeasured"
    """Maxima are measured on neither GPU; subject: their names."""
    MAXIMA_BY_SHARE = "maxima-by-share"
    """Maxima of a GPU are taken from another one's share of its peaks; subject: the GPU."""
    WRITE_RATE_USED = "write-rate-used"
    """A kernel that only writes has the bandwidth of writes."""
    WRITE_RATE_UNKNOWN = "write-rate-unknown"
    """The bandwidth of writes is not known of both GPUs."""
    COMPUTE_MAXIMUM = "compute-maximum"
    """Which kind of maximum is compared; subject: the precision."""
    BANDWIDTH_MAXIMUM = "bandwidth-maximum"
    """Which kind of DRAM bandwidth is compared."""
    BANDWIDTH_MAXIMUM_USUAL = "bandwidth-maximum-usual"
    """The DRAM bandwidth of some GPUs is a usual share; subject: these GPUs."""
    PRECISIONS_IN_TURN = "precisions-in-turn"
    """A kernel has several precisions; subject: their names."""

    # Carrying a measured time over to another GPU.
    TIMING_OF_RUN = "timing-of-run"
    """The measured time is of another timing than asked for."""
    CLOCK_OF_RUN = "clock-of-run"
    """The run had another clock than the roofs of its GPU; subject: the GPU."""
    OPERATIONS_TAKEN_AS_NONE = "operations-taken-as-none"
    """Operations were not counted; subject: the precisions."""
    OPERATIONS_UNKNOWN = "operations-unknown"
    """No floating-point operation was counted."""
    SPECIAL_FUNCTIONS_UNKNOWN = "special-functions-unknown"
    """Machine code of special functions is unknown."""
    SPECIAL_FUNCTIONS_DIFFER = "special-functions-differ"
    """Special functions need other operations on another GPU; subject: the GPU."""
    FASTER_THAN_LEVEL = "faster-than-level"
    """A run is faster than the roof of a memory level; subject: the level."""
    FASTER_THAN_ROOF = "faster-than-roof"
    """A run is faster than its roof."""
    EFFICIENCY_ABOVE_ONE = "efficiency-above-one"
    """Occupancy does not limit a kernel."""
    REGISTERS_UNKNOWN = "registers-unknown"
    """The occupancy is the measured one."""
    REGISTERS_TAKEN_AS_SAME = "registers-taken-as-same"
    """A kernel is not compiled for the other generation."""
    NOT_CHECKED = "not-checked"
    """The evidence does not tell whether assumptions hold; subject: the assumptions."""
    WORKING_SET_FITS_ONE = "working-set-fits-one"
    """The working set fits L2 of one GPU only; subject: that GPU."""
    TENSOR_CORES_USED = "tensor-cores-used"
    """Tensor cores differ between generations."""
    SPECIAL_FUNCTIONS_COUNT = "special-functions-count"
    """Special functions have a unit that the roofline leaves out."""
    COALESCING_DIFFERS = "coalescing-differs"
    """Accesses take other numbers of sectors on both GPUs."""
    L1_USE_DIFFERS = "l1-use-differs"
    """L1 of one GPU alone caches global loads; subject: that GPU."""
    LOAD_IMBALANCE = "load-imbalance"
    """Some blocks or warps do more than others."""
    SMS_IDLE = "sms-idle"
    """Fewer blocks than SMs; subject: the GPU."""
    LAST_WAVE_PARTLY_EMPTY = "last-wave-partly-empty"
    """The last wave of blocks fills a GPU only in part; subject: the GPU."""
    LAUNCH_BOUND = "launch-bound"
    """The launch itself takes much of the measured time."""
    ROOFS_CLOSE = "roofs-close"
    """Arithmetic and DRAM take about as long; subject: the GPU."""
    ROOF_CHANGES = "roof-changes"
    """Another resource is the roof on the other GPU."""
    EFFICIENCY_OF_OTHER_GENERATION = "efficiency-of-other-generation"
    """The efficiency is of another generation."""

    # The published convolution model.
    CONVOLUTION_GRID_DIFFERS = "convolution-grid-differs"
    """The launch has another grid than the published kernel."""
    NO_LAUNCH_OVERHEAD = "no-launch-overhead"
    """A model knows no launch overhead; subject: the model."""
    BANDWIDTH_OF_V100 = "bandwidth-of-v100"
    """The published bandwidth is above the data sheet's."""
    LATENCY_METHOD_REPLACED = "latency-method-replaced"
    """The paper gave a method up."""
    TILE_BELOW_ONE_READ = "tile-below-one-read"
    """The published division counts a small tile as no read."""
    TILE_ABOVE_SHARED_MEMORY = "tile-above-shared-memory"
    """The published kernel would not compile."""
    CONSTANTS_PUBLISHED = "constants-published"
    """The constants are those of the paper; subject: its GPU."""
    CONSTANTS_OF_GPU_FILE = "constants-of-gpu-file"
    """The paper has no constants of a GPU; subject: the paper's GPU."""

    # Bounds on parts of a GPU.
    SLOWER_WITH_MORE_TPCS = "slower-with-more-tpcs"
    """Measured times rise with the TPCs."""
    LESS_WORK_WITH_MORE_TPCS = "less-work-with-more-tpcs"
    """Measured times fall by more than the TPCs grow."""
    TIME_ABOVE_BOUND_OF_OTHERS = "time-above-bound-of-others"
    """A measured time is above the bound by the others."""
    NO_STAIRCASE = "no-staircase"
    """No grid of equal blocks has the measured times."""
    MARGIN_TOO_SMALL = "margin-too-small"
    """Even the largest margin leaves a time above its bound."""
    NO_TIME_ABOVE_ZERO = "no-time-above-zero"
    """A method forecasts no time; subject: the TPC counts."""
    BOUND_ABOVE_MEDIAN = "bound-above-median"
    """The bound covers the spread of repeats."""
    SMS_PER_TPC_UNKNOWN = "sms-per-tpc-unknown"
    """Each SM counts as a TPC; subject: the GPU."""
    MEASURE_NEXT = "measure-next"
    """Which time would tighten the bounds most."""

    # Occupancy.
    NO_BLOCK_FITS = "no-block-fits"
    """Not one block fits an SM."""
    OVER_LAUNCH_BOUNDS = "over-launch-bounds"
    """A block has more threads than the kernel allows."""
    SHARED_MEMORY_OPT_IN = "shared-memory-opt-in"
    """A block needs shared memory that a program must ask for."""
    CARVEOUT_HAS_NO_EFFECT = "carveout-has-no-effect"
    """L1 and shared memory are separate."""
    CARVEOUT_PERCENTAGE_IGNORED = "carveout-percentage-ignored"
    """The architecture heeds no percentage."""
    CURVES_CUT = "curves-cut"
    """A picture holds only the first rows; subject: its file."""


#: Caveats on the interval of a forecast; they say nothing of a bound by measured times.
OF_INTERVALS = frozenset(
    {
        CaveatKind.INTERVAL_CALIBRATED,
        CaveatKind.INTERVAL_EXTRAPOLATED,
        CaveatKind.INTERVAL_UNCALIBRATED,
        CaveatKind.INTERVAL_PUBLISHED,
    }
)


@dataclass(frozen=True, slots=True)
class Caveat:
    """One thing that a reader of a forecast, a profile or a bound should know."""

    kind: CaveatKind
    subject: str = ""
    """name of the thing, such as a GPU, a buffer or a list of metrics"""
    numbers: tuple[tuple[str, float], ...] = ()
    """numbers by name, in SI units"""
    texts: tuple[tuple[str, str], ...] = ()
    """further names, and reasons of refusals, by name"""

    @classmethod
    def of(cls, kind: CaveatKind, subject: str = "", /, **details: float | str) -> Self:
        """Return a caveat with its numbers and texts.

        >>> Caveat.of(CaveatKind.MEASURE_NEXT, tpcs=20).numbers
        (('tpcs', 20),)
        """
        numbers = tuple((name, value) for name, value in details.items() if not isinstance(value, str))
        texts = tuple((name, str(value)) for name, value in details.items() if isinstance(value, str))
        return cls(kind, subject, numbers, texts)

    @property
    def details(self) -> Mapping[str, float | str]:
        """Numbers and texts by name."""
        return dict((*self.numbers, *self.texts))
