"""Sentences about a forecast: the only place that words a limiter, a count or a conclusion."""

import re
from collections.abc import Callable, Iterable, Sequence
from string import Formatter
from typing import TYPE_CHECKING, Any

from kerncast.caveats import Caveat, CaveatKind
from kerncast.prediction import Prediction, Timing
from kerncast.profiles import Count, KernelProfile, Origin
from kerncast.units import GIGA, KIB, MEGA, PERCENT, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from kerncast.observation import TimedKernel
    from kerncast.operators import Operator

_LIMITERS = {
    "compute": "floating-point throughput",
    "fp32": "the FP32 lanes",
    "fp64": "the FP64 lanes",
    "fp16": "the FP16 lanes",
    "special": "the special-function units",
    "integer": "the integer lanes",
    "fma": "the FMA pipe",
    "alu": "the ALU pipe",
    "imad": "integer multiply-adds",
    "xu": "the special-function units",
    "tensor": "the tensor cores",
    "tensor_memory": "the ports of tensor memory",
    "branch": "branches",
    "uniform": "the uniform datapath",
    "lsu": "the load/store units",
    "issue": "warp-instruction issue",
    "shared": "shared-memory bandwidth",
    "l1": "L1 bandwidth",
    "l2": "L2 bandwidth",
    "atomics": "atomics in L2",
    "dram": "DRAM bandwidth",
    "blocks": "the start of blocks",
    "latency": "latency",
    "mixed": "FP32 among other instructions",
    "launch": "the launch overhead",
    "grid_barriers": "barriers of the whole grid",
    "cluster_barriers": "barriers of clusters",
    "power": "the board's power limit",
    "learned": "resources that a trained model does not name",
}

#: Classes of resources that are not called as one of their resources is.
_CLASSES = {
    "l1": "L1 and shared memory",
    "pipes": "arithmetic and warp-instruction issue",
    "launch": "the start of blocks and of the launch",
}

_ONE_PERCENT = 0.01
_PROBABLE = re.compile(r"([a-z0-9]+) ([01]\.[0-9]+)")
#: Measured times that a heading names.
_MOST_TIMES = 6
#: GPUs that a caveat names before it only counts them.
MOST_GPUS = 4
#: What makes a kernel faster that this limits. Source: CUDA C++ Best Practices Guide (recalled).
_ADVICE = {
    "fp64": "FP32 where its precision suffices: several times as fast on most GPUs",
    "fma": "less arithmetic, or lower precision",
    "fp32": "less arithmetic, or lower precision",
    "alu": "fewer integer, compare and conversion instructions: simplify indices, unroll loops",
    "imad": "fewer integer multiplications: step through addresses instead of computing each one",
    "integer": "fewer integer instructions: simplify indices, unroll loops",
    "xu": "fewer divisions, roots and transcendental functions, or their fast intrinsics",
    "special": "fewer divisions, roots and transcendental functions, or their fast intrinsics",
    "branch": "unroll loops; turn short branches into selections",
    "tensor": "a smaller number format; on Hopper and B200 products of warp groups (wgmma, tcgen05), which are faster",
    "tensor_memory": "fewer moves between registers and tensor memory",
    "lsu": "fewer, wider memory instructions: vector loads, values kept in registers",
    "issue": "fewer instructions: unroll loops, vectorise memory accesses",
    "shared": "avoid bank conflicts; keep values that are read again in registers",
    "l1": "coalesce accesses, so that a warp touches fewer lines",
    "l2": "reuse data within an SM: shared memory, tiles, coalesced accesses",
    "atomics": "combine within a warp or block before updating memory; spread the addresses",
    "dram": "move fewer bytes: reuse data in caches, coalesce accesses, use smaller types",
    "blocks": "fewer, larger blocks: more threads in each, or more work per thread",
    "latency": "more warps per SM, or more independent work in each: no resource is busy for most of the time",
    "launch": "more work per launch, or CUDA graphs",
    "grid_barriers": "more work between two barriers, or fewer of them",
    "cluster_barriers": "more work between two barriers, or fewer of them",
}

#: The same for operators of a library, whose kernels are given.
_OPERATOR_ADVICE = {
    "dram": "a smaller number format, a larger batch, or fusing it with its neighbours",
    "l2": "a larger batch, or sizes that are multiples of the library's tiles",
    "fp32": "TF32 or a 16-bit format, where precision allows",
    "tensor": "a smaller number format, or sizes that are multiples of the library's tiles",
    "launch": "CUDA graphs, a larger batch, or fusing it with its neighbours",
    "power": "a board with a higher power limit",
}
#: Name of the model of operators.
OPERATORS = "operators"

_TIMINGS = {
    Timing.SERIES: "mean per launch in a warm, back-to-back series",
    Timing.SINGLE: "one launch between events, after others like it",
    Timing.COLD: "one launch between events, L2 flushed before",
    Timing.PROFILER: "the kernel's own duration, as a profiler shows it, after others like it",
}


def describe_limiter(name: str) -> str:
    """Return what a limiter means.

    >>> describe_limiter("dram")
    'DRAM bandwidth'
    """
    return _LIMITERS.get(name, name)


def describe_class(name: str) -> str:
    """Return what a class of resources is called.

    >>> describe_class("l1"), describe_class("atomics")
    ('L1 and shared memory', 'atomics in L2')
    """
    return _CLASSES.get(name) or describe_limiter(name)


def describe_resources(text: str) -> str:
    """Return resources with their probabilities in words.

    >>> describe_resources("dram 0.55, issue 0.44")
    'DRAM bandwidth 55 %, warp-instruction issue 44 %'
    """
    return _PROBABLE.sub(lambda found: f"{describe_limiter(found[1])} {describe_percent(float(found[2]))}", text)


def advise(name: str) -> str:
    """Return what makes a kernel faster that this limits; empty where nothing is known.

    >>> advise("launch")
    'more work per launch, or CUDA graphs'
    """
    return _ADVICE.get(name, "")


def advise_operator(name: str) -> str:
    """Return what makes an operator faster that this limits; empty where nothing is known.

    >>> advise_operator("power")
    'a board with a higher power limit'
    """
    return _OPERATOR_ADVICE.get(name, "")


def describe_part(seconds: float, whole: float) -> str:
    """Return a time with its share of another one.

    >>> describe_part(404e-6, 518e-6), describe_part(1e-9, 1e-3)
    ('404 µs (78 %)', '1 ns (<1 %)')
    """
    return f"{format_seconds(seconds, 3)} ({describe_percent(seconds / whole)})"


def describe_percent(share: float) -> str:
    """Return a share in whole percent."""
    return "<1 %" if 0 < share < _ONE_PERCENT else f"{share:.0%}".replace("%", " %")


def is_published(model: str) -> bool:
    """Return whether the interval of a model is the one of its paper, which no level changes."""
    from kerncast.models import is_model_file, model_named  # noqa: PLC0415  the doctor works where NumPy is missing

    return model != OPERATORS and not is_model_file(model) and model_named(model).has_published_interval


def head_interval(predictions: Sequence[Prediction]) -> str:
    """Return the heading over the intervals of these forecasts, such as ``90% interval``."""
    kinds = ["published" if is_published(p.model) else f"{p.level:.0%}" for p in predictions]
    return f"{' or '.join(dict.fromkeys(kinds))} interval"


def describe_interval_kind(model: str) -> str:
    """Return whether the intervals of a model rest on measured times."""
    from kerncast.models import calibration_of, is_model_file, model_named  # noqa: PLC0415  as above

    if model == OPERATORS:
        return "from the errors on GPUs left out"
    if is_model_file(model):
        return "from the errors on launches held out"
    if model_named(model).has_own_errors:
        return "from the errors on measured times"
    if is_published(model):
        return "published: the span of the projections by L1, L2 and DRAM, whatever the level"
    return "uncalibrated" if calibration_of(model) is None else "calibrated on measured times"


def describe_timing(timing: Timing) -> str:
    """Return what is timed, in words."""
    return _TIMINGS[timing]


def describe_interval(prediction: Prediction) -> str:
    """Return the interval of a forecast, such as ``8.3 µs to 60 µs``."""
    return describe_range(prediction.low, prediction.high)


def describe_range(low: float, high: float, digits: int = 2) -> str:
    """Return two times as a range."""
    return f"{format_seconds(low, digits)} to {format_seconds(high, digits)}"


def describe_count(count: Count | None, unit: str = "") -> str:
    """Return a count with its interval where it was scaled from a sample."""
    if count is None:
        return "unknown"
    form = format_bytes if unit == "B" else format_count
    text = form(count.value) if unit == "B" else form(count.value, unit)  # type: ignore[call-arg]
    if count.is_exact:
        return text
    return f"{text} ({form(count.low)} to {form(count.high)})"


def describe_sampling(profile: KernelProfile) -> str:
    """Return how the counts came about."""
    if profile.sampling is None:
        if profile.origin is Origin.PROFILED:
            return f"Counted by a profiler on {profile.run.gpu.name}." if profile.run else "Counted by a profiler."
        return "Counts declared by hand."
    if profile.origin is Origin.COUNTED:
        blocks = f"{profile.sampling.blocks_executed} of {profile.sampling.blocks} blocks"
        return f"Counted without execution, by following {blocks} through the PTX."
    if profile.sampling.is_whole_grid:
        return f"Counted exactly: all {profile.sampling.blocks} blocks were executed on the CPU."
    return (
        f"Counted by executing {profile.sampling.blocks_executed} of {profile.sampling.blocks} blocks on the CPU and"
        " scaling to the grid."
    )


def describe_operator(operator: "Operator") -> str:
    """Return what an operator does, and how often it is called.

    >>> from kerncast.operators import parse_operator
    >>> describe_operator(parse_operator("bmm(B=4,M=8,N=8,K=8,count=12)"))
    '[B, M, N] times [B, N, K], called 12 times'
    """
    often = f", called {operator.count} times" if operator.count > 1 else ""
    named = f"{operator.text}: " if operator.label else ""
    return f"{named}{operator.kind.meaning}{often}"


def describe_times(timed: "TimedKernel") -> str:
    """Return the measured times of a kernel of which nothing else is known."""
    shown = [f"{format_seconds(each.seconds, 3)} on {each.gpu.name}" for each in timed.times[:_MOST_TIMES]]
    more = len(timed.times) - len(shown)
    return f"Only times are known: {', '.join(shown)}{f' and {more} more' if more else ''}."


_CERTAIN = 0.995


def describe_probability(probability: float) -> str:
    """Return a probability in percent; one of draws is never told as certain.

    >>> describe_probability(0.6184), describe_probability(0.9999), describe_probability(0.0001)
    ('62 %', '>99 %', '<1 %')
    """
    if probability < 1 - _CERTAIN:
        return "<1 %"
    return ">99 %" if probability >= _CERTAIN else describe_percent(probability)


#: A template per kind. Its fields are the subject, the numbers and the texts of the caveat.
WORDS: dict[CaveatKind, str] = {
    # The GPUs that names and files mean.
    CaveatKind.MIG_BANDWIDTH_ASSUMED: (
        "A slice is taken to have as large a share of DRAM bandwidth as of memory. Nothing was measured on slices."
    ),
    CaveatKind.GPU_NAME_AMBIGUOUS: 'The name "{subject}" fits several GPUs: {taken} is used. Others: {others}.',
    CaveatKind.GPU_IS_HYPOTHETICAL: (
        "This GPU does not exist: it is the {subject} with another {changed}. What was measured on that GPU follows in"
        " proportion."
    ),
    CaveatKind.GPU_FOUND_BY_SMS: (
        "The profile does not name its GPU. {subject} is the only known one with {sms} SMs of compute capability"
        " {capability}."
    ),
    CaveatKind.GPU_NAMED_OTHERWISE: "The profile names {named} as its GPU, but {subject} was given and is used.",
    CaveatKind.CAPABILITY_DIFFERS: "The profile says compute capability {profiled}, but {subject} has {own}.",
    # Compiling.
    CaveatKind.COMPILED_WITHOUT_KEPLER: (
        "The kernel is compiled for {compiled_for} instead of {subject}, because NVRTC 11.8 (extra kepler: {wheel})"
        " is not installed. Registers, spills and instructions differ."
    ),
    CaveatKind.COMPILED_FOR_OTHER_KEPLER: (
        "The kernel is compiled for {compiled_for}, because no compiler that can be installed from a wheel makes"
        " code for {subject}."
    ),
    CaveatKind.COMPILED_WITH_FEWER_REGISTERS: (
        "The kernel is compiled for {compiled_for} with at most {registers} registers, because no compiler that can"
        " be installed from a wheel makes code for {subject}."
    ),
    CaveatKind.COMPILED_FOR_NEAREST: (
        "The kernel is compiled for {compiled_for}, the nearest older architecture, because NVRTC 12.9 does not know"
        " {subject}."
    ),
    CaveatKind.HEADER_MISSING: 'The header "{subject}" was not found. An empty one was compiled in its place.',
    CaveatKind.HEADERS_FROM_MAKEFILE: (
        "Headers are taken from {folders}, which {subject} names. Write include = […] to choose others."
    ),
    CaveatKind.FAST_MATH_IGNORED: "{subject} has --use_fast_math, which is not used. Write fast_math = true to use it.",
    CaveatKind.MACROS_FROM_MAKEFILE: (
        "The source compiles only with the macros of {subject}: {macros}. Write defines = {{…}} to choose others."
    ),
    CaveatKind.FIRST_OF_SEVERAL_VALUES: "The Makefile gives several values of {subject}. The first one is used.",
    # Executing a sample of blocks.
    CaveatKind.SCALED_FROM_SAMPLE: "The counts are scaled from {executed} of {blocks} blocks.",
    CaveatKind.RARE_BLOCKS_MISSED: "The sample may miss what fewer than 1 in {rare} blocks do.",
    CaveatKind.STALE_READS: (
        "The executed blocks may read old values from {subject}, because other blocks that write there did not run."
    ),
    CaveatKind.TAKEN_IN_TURN: (
        "Blocks take their work from a counter that all share. As not all of them ran, each got the numbers of its"
        " turn, as if all were equally fast."
    ),
    CaveatKind.INTERPRETED: (
        "The kernel is too large to be compiled for this CPU, so it was interpreted, which is slow."
    ),
    CaveatKind.PRINTF_LEFT_OUT: "The kernel calls printf. The time of printf is left out.",
    CaveatKind.LANES_ABSENT: (
        "{subject}: a warp-wide instruction names threads that took another branch, which CUDA leaves undefined."
        " These threads are left out."
    ),
    CaveatKind.LATE_ARRIVAL: (
        "{subject}: threads arrive at the mbarrier of a block of their cluster which has ended. PTX leaves that"
        " undefined; here nothing comes of it. End with cluster.sync()."
    ),
    CaveatKind.REQUEST_NOT_GRANTED: (
        "The kernel asks for work of clusters that have not begun (clusterlaunchcontrol). No request is granted: every"
        " block of the grid runs, and a GPU may save what each does before and behind its work."
    ),
    CaveatKind.VARIABLE_COPIED: "{subject} holds the literal values that the host copies to it ({places}).",
    CaveatKind.VARIABLE_SET_BY_HOST: (
        "{subject} is zero here, but the host sets it ({places}). Write globals = {{ {key} = … }}."
    ),
    CaveatKind.INITIAL_VALUE_REPLACED: (
        "{subject} has its initial value here, but the host sets it ({places}). Write globals = {{ {key} = … }}."
    ),
    CaveatKind.MEMORY_NOT_KEPT: (
        "The recording had no room for what this launch saw of memory: zeros stand for it, and what depends on them may"
        " be wrong. Record the program with a larger --keep."
    ),
    CaveatKind.CONSTANT_NEVER_SET: (
        "{subject} is zero here: it is __constant__, and nothing in the source sets it. Write globals = {{ {key} = …"
        " }}."
    ),
    CaveatKind.GRID_BARRIERS: (
        "All blocks wait for one another {subject} times. Each barrier counts {seconds:seconds}, as was measured with"
        " blocks that arrive together; how long they wait for the slowest block is not simulated."
    ),
    CaveatKind.CLUSTERS: (
        "Blocks run in clusters of {subject}. A barrier of a cluster counts {middle:.0f} cycles; {least:.0f} to"
        " {most:.0f} were published, which widens the interval. Accesses to shared memory of other blocks cost what was"
        " published of the way between SMs; the SMs of those blocks are simulated where these have different roles."
    ),
    CaveatKind.CACHES_NOT_SIMULATED: "The caches were not simulated: {reason:open}.",
    CaveatKind.WARP_STATES_NOT_SIMULATED: "The states of the warps were not simulated: {reason:open}.",
    # Machine code.
    CaveatKind.MACHINE_CODE_ESTIMATED: "The machine instructions are estimated: {reason:open}.",
    CaveatKind.MACHINE_CODE_OF_SIMILAR_FORMS: (
        "The machine code of {percent:.0f} % of the executed instructions is taken to be that of similar ones, which"
        " widens the interval: {subject}."
    ),
    CaveatKind.RARE_CODE_NOT_EXECUTED: (
        "The special cases of division and square root (denormal, infinite) are taken as not executed."
    ),
    CaveatKind.PREDICATES_NOT_COUNTED: "The profile does not count how many threads a predicate switches off.",
    # Reading files of profilers, tuners and people.
    CaveatKind.COUNTS_DECLARED: "The counts are declared by hand.",
    CaveatKind.TIME_FROM_CYCLES: "The profile has no gpu__time_duration. The time is its cycles over its clock.",
    CaveatKind.OPERATIONS_COUNTED_TOGETHER: (
        "The profile counts {subject} additions, multiplications and fused multiply-adds together. The operations"
        " are known within a factor of 2."
    ),
    CaveatKind.DRAM_BYTES_FROM_SHARE: (
        "The profile does not count DRAM bytes. They are DRAM's busy share of its data-sheet bandwidth, times the time."
    ),
    CaveatKind.COUNTS_FROM_RATES: "Some counts are rates of the profile times its time or its cycles.",
    CaveatKind.TIME_MISSING: "The profile holds no time. Collect gpu__time_duration.sum.",
    CaveatKind.OPERATIONS_NOT_SPLIT: (
        "The profile does not count {subject} additions, multiplications and fused multiply-adds separately."
    ),
    CaveatKind.HALVES_PERHAPS_ONCE: (
        "The FP16 operations are as ncu counts them: packed ones perhaps once instead of twice."
    ),
    CaveatKind.TENSOR_CORES_NOT_COUNTED: (
        "The kernel uses tensor cores, whose operations are not among the floating-point operations."
    ),
    CaveatKind.LOCAL_MEMORY_USED: (
        "The kernel spills registers or keeps arrays in local memory. Code for another GPU may do this more or less."
    ),
    CaveatKind.ATOMICS_PER_WARP: "The kernel has atomics, which the profile counts per warp and not per thread.",
    CaveatKind.CLOCK_HELD_AT_BASE: (
        "The SMs ran at {clock_hz:mhz}, about the base clock, at which ncu holds them without --clock-control none."
        " Outside the profiler {subject} is faster."
    ),
    CaveatKind.CACHES_EMPTIED: (
        "The data fit L2, which ncu empties before each pass without --cache-control none. In a series of launches"
        " {subject} may be faster."
    ),
    CaveatKind.SIZE_ONLY: "The file tells only the size of the {subject}. One dimension is assumed.",
    CaveatKind.MEANS_OVER_LAUNCHES: "The counters are means over {launches} launches of this kernel.",
    CaveatKind.L1_TAKEN_AS_UNUSED: (
        "L1 of Kepler is taken to cache no global loads, as compilers have it without other options."
    ),
    CaveatKind.TUNED_WITH: "The kernel is tuned with {subject}.",
    CaveatKind.OPERATIONS_FROM_RATE: (
        "The operations are the file's rate times its time, taken as FP32, because the file names no precision."
    ),
    CaveatKind.CONFIGURATIONS_LEFT_OUT: (
        "{left_out} of {all} configurations are left out, because the source has no launch of them."
    ),
    CaveatKind.GEOMETRY_FROM_SOURCE: (
        "Grid and block are those of the source's launch, because the file does not hold both."
    ),
    CaveatKind.GRID_FROM_PROBLEM_SIZE: (
        "The grid is problem_size over the block. The file does not record other divisors."
    ),
    CaveatKind.COUNTERS_INCOMPLETE: "The counters are left out, because the tuner ended before they were complete.",
    # Evidence of a forecast.
    CaveatKind.LAUNCH_NOT_IN_SOURCE: (
        "The source has no launch of this kernel with grid {grid} and block {block}. Nothing was counted by"
        " executing it."
    ),
    CaveatKind.TUNED_LAUNCH_NOT_IN_SOURCE: (
        "The source has no launch of this kernel with grid {grid} and block {block} that is tuned in this way."
        " Nothing was counted by executing it."
    ),
    CaveatKind.COUNTED_BY_EXECUTION: (
        "These counts are not in the profile and come from executing the source: {subject}."
    ),
    CaveatKind.COUNTED_BY_TEXT: (
        "Counted without execution, because {subject} uses what is not executed ({instruction}): how often code runs"
        " and what it moves follow from the PTX, the arguments and the launch alone. The time is that of the busiest"
        " resource, and its interval is wide."
    ),
    CaveatKind.COPIES_NOT_COUNTED: ("What these copies move is unknown and left out: {subject}."),
    CaveatKind.COUNTS_AND_TIME_APART: (
        "The counts are from the profile on {counted}, the time is from --measured on {timed}."
    ),
    CaveatKind.COUNTS_REPLACED: (
        "By its counters, the profiled run needs {ratio:.3g} times the {subject} that the simulation reckons with. The"
        " forecast uses the run's. Its inputs may differ from those in the launch file."
    ),
    CaveatKind.TIME_ELSEWHERE_UNUSED: (
        "The time on {subject} is not used: this model carries over one time, and {nearest} is nearer."
    ),
    CaveatKind.MEASURED_TIME_UNUSED: "The model {subject} does not use the measured time.",
    CaveatKind.EVIDENCE_NOT_SIMULATED: (
        "The time on {subject} ({place}) moves nothing, because its launch cannot be forecast there: {reason:open}."
    ),
    CaveatKind.EVIDENCE_CONTRADICTS: (
        "The time on {subject} ({place}) is {ratio:.2g} x what the model says of it, outside the 99 % range that the"
        " model's error and all other measured times give it. Check its GPU, launch, clock and unit."
    ),
    CaveatKind.ONLY_TIMES_KNOWN: (
        "Only times are used. What limits the kernel is a guess: {subject:resources}. A source that can be simulated"
        " here, or a profile with the counters of the pipes, would narrow the interval, and so would further times."
    ),
    CaveatKind.TIME_CONTRADICTS: (
        "The time on {subject} ({place}) lies outside the 99 % range that all other measured times give it. Check its"
        " GPU, kernel, clock and unit."
    ),
    CaveatKind.CLOCK_TAKEN_AS_DEFAULT: (
        "The times on {subject} count as measured at the default clock. If the clock was lower, the forecast is too"
        " long by as much where the SMs limit: fill the column clock_mhz."
    ),
    CaveatKind.NOT_SIMULATED: (
        "The launch is not simulated: {reason:open}. This forecast is by {subject}, which is less exact."
    ),
    CaveatKind.OTHER_MODEL_USED: "This forecast is by {subject}, because {unusable} is not possible: {reason:open}.",
    CaveatKind.FORCED: "This launch cannot run on {subject} ({reason}). It is forecast because of --force.",
    # Intervals.
    CaveatKind.INTERVAL_CALIBRATED: (
        "{level:level} interval: forecast / {factor:.2g} to forecast x {factor:.2g}, the error seen on {cases}"
        " measured cases ({families} kernels; {subject})."
    ),
    CaveatKind.INTERVAL_BY_CLASS: (
        "{level:level} interval: the error seen on {cases} measured cases ({families} kernels; {subject}), by what"
        " limits them. For half of them it was forecast / {usual:.3g} to forecast x {usual:.3g}, or narrower."
    ),
    CaveatKind.INTERVAL_WIDE: (
        "The interval is wider than most for the part of {subject:class} in the time: there forecasts were off by more."
    ),
    CaveatKind.INTERVAL_NARROWED: (
        "{level:level} interval: forecast / {factor:.3g} to forecast x {factor:.3g}. It is the error seen on {cases}"
        " measured cases ({families} kernels; {subject}), narrowed by measured times ({times})."
    ),
    CaveatKind.INTERVAL_EXTRAPOLATED: (
        "The measured cases tell levels from {lowest:level} to {highest:level}. The factor for {level:level} assumes"
        " a lognormal error, which no measurement confirms."
    ),
    CaveatKind.INTERVAL_UNCALIBRATED: (
        "{level:level} interval, uncalibrated: the bounds of the counts / {factor:.2g} to x {factor:.2g}, an assumed"
        " error of this model. Its coverage has not been measured."
    ),
    CaveatKind.INTERVAL_OF_TIMES: (
        "{level:level} interval: as far as times of {kernels} measured kernels ({launches} launches) differed from what"
        " the rates of their GPUs tell."
    ),
    CaveatKind.INTERVAL_PUBLISHED: (
        "The interval is the published one: the span of the projections by L1, L2 and DRAM, not widened. On measured"
        " pairs of GPUs it held {subject} of the times."
    ),
    CaveatKind.CODE_OF_OTHER_GENERATION: (
        "The counts are of code for {subject}, another generation."
        " The interval is widened to / {factor:.2g} and x {factor:.2g} in all."
    ),
    CaveatKind.TIME_OF_OTHER_GENERATION: (
        "The time was measured on compute capability {subject}, another generation."
        " The interval is widened to / {factor:.2g} and x {factor:.2g} in all."
    ),
    CaveatKind.MICROARCHITECTURE_NOT_MEASURED: (
        "The interval was not measured on {subject}. It is widened to / {factor:.2g} and x {factor:.2g} in all."
    ),
    CaveatKind.TIME_AS_MEASURED: "The time is the one measured on {subject}. How far runs differ is not known.",
    CaveatKind.CLOCK_UNKNOWN: (
        "The clock of {subject} is not known: {gpu_hz:mhz} is taken. Such boards run kernels at {low_hz:mhz} to"
        " {high_hz:mhz}, where the time would be / {faster:.2f} to x {slower:.2f}. The interval counts that as a"
        " further error; --clock leaves it out."
    ),
    CaveatKind.POWER_LIMITED: (
        "{subject} would draw an estimated {watts:.0f} W of at most {limit:.0f} W at {from_hz:mhz}. Its clock is"
        " lowered to {to_hz:mhz}, where the power fits, or below which no such board was seen."
    ),
    CaveatKind.ENERGY_UNKNOWN: "No energy is estimated for {subject}: {reason:open}.",
    CaveatKind.TIME_AT_OTHER_CLOCK: (
        "The run was on {subject} itself at {run_hz:mhz}; the forecast is for {gpu_hz:mhz}. The interval reaches from"
        " the same time to one in proportion to the clock."
    ),
    # Rates and maxima of GPUs.
    CaveatKind.FP16_RATE_OF_FP32: "A GPU without an FP16 rate of its own is given its FP32 rate.",
    CaveatKind.RESOURCES_LEFT_OUT: (
        "These resources are left out, because their count or this GPU's rate is unknown: {subject}."
    ),
    CaveatKind.DRAM_RATE_UNKNOWN: "The sustained DRAM bandwidth of this GPU is unknown. The data-sheet peak is used.",
    CaveatKind.DRAM_RATE_USUAL: (
        "The sustained DRAM bandwidth is the usual share of the peak. It was not measured on this GPU."
    ),
    CaveatKind.L2_RATE_UNKNOWN: (
        "The L2 bandwidth of this GPU is unknown. There is no L2 term, and a warm working set counts as DRAM traffic."
    ),
    CaveatKind.MAXIMA_UNMEASURED: (
        "These maxima are measured on neither GPU, so peaks or usual rates are compared: {subject}."
    ),
    CaveatKind.MAXIMA_BY_SHARE: "The maxima of {subject} are its peaks times the share that {other} reaches: {names}.",
    CaveatKind.WRITE_RATE_USED: "The kernel only writes. The DRAM maximum is that of a stream of writes.",
    CaveatKind.WRITE_RATE_UNKNOWN: (
        "The kernel only writes, but the bandwidth of writes is not known of both GPUs. That of a copy is used."
    ),
    CaveatKind.COMPUTE_MAXIMUM: "The {subject} maximum of both GPUs: {measure}.",
    CaveatKind.BANDWIDTH_MAXIMUM: "The DRAM bandwidth of both GPUs: {measure}.",
    CaveatKind.BANDWIDTH_MAXIMUM_USUAL: (
        "The DRAM bandwidth of both GPUs: {measure}. That of {subject} is the usual share of the peak."
    ),
    CaveatKind.PRECISIONS_IN_TURN: "{subject} operations are taken one after the other, each at its own rate.",
    # Carrying a measured time over to another GPU.
    CaveatKind.TIMING_OF_RUN: "The measured time is of timing {measured}, and so is the forecast, not {asked}.",
    CaveatKind.CLOCK_OF_RUN: (
        "The run was at {run_hz:mhz}, but the roofs of {subject} are for {gpu_hz:mhz}. The published model knows no"
        " clock."
    ),
    CaveatKind.OPERATIONS_TAKEN_AS_NONE: "The {subject} operations were not counted. They are taken as none.",
    CaveatKind.OPERATIONS_UNKNOWN: (
        "The floating-point operations are unknown. The forecast is by DRAM bandwidth (equations 6 to 8), and its"
        " interval reaches to the ratio of FP32 rates. Collect them with ncu --set full and --page raw, or give the"
        " source."
    ),
    CaveatKind.SPECIAL_FUNCTIONS_UNKNOWN: (
        "The source of the kernel is unknown. Special functions are taken to need as many operations on both GPUs."
    ),
    CaveatKind.SPECIAL_FUNCTIONS_DIFFER: (
        "Special functions need {ratio:.4g} times the FP{bits} operations on {subject}, by {origin} machine code."
    ),
    CaveatKind.FASTER_THAN_LEVEL: (
        "The run is {times:.3g} times as fast as its {subject} roof. The counts or maxima do not fit its time."
    ),
    CaveatKind.FASTER_THAN_ROOF: (
        "The run is {times:.3g} times as fast as its roof. Caches served a part of the counted bytes."
    ),
    CaveatKind.EFFICIENCY_ABOVE_ONE: (
        "The efficiency is {efficiency:.3g}, above 1. Occupancy is not what limits this kernel."
    ),
    CaveatKind.REGISTERS_UNKNOWN: (
        "The registers are unknown. The occupancy is the achieved one, scaled as threads and shared memory alone allow."
    ),
    CaveatKind.BUILD_MAY_DIFFER: (
        "The kernel spills registers, or nearly. Another architecture's build may spill more or less; the source would"
        " tell. The interval is widened to / {factor:.2g} and x {factor:.2g} in all."
    ),
    CaveatKind.REGISTERS_TAKEN_AS_SAME: (
        "The kernel is taken to need as many registers on the other generation, because it is not compiled for that"
        " one."
    ),
    CaveatKind.NOT_CHECKED: "The evidence does not tell these, so they are not checked: {subject}.",
    CaveatKind.WORKING_SET_FITS_ONE: (
        "The working set of {working_set:bytes} fits L2 of {subject} ({inside:bytes}), but not L2 of {other}"
        " ({outside:bytes}). Its efficiency does not carry over."
    ),
    CaveatKind.TENSOR_CORES_USED: (
        "{warp_instructions:.3g} warp instructions use tensor cores, whose rates differ between generations."
    ),
    CaveatKind.SPECIAL_FUNCTIONS_COUNT: (
        "{share:percent} of the arithmetic are special functions, whose own unit the roofline leaves out."
    ),
    CaveatKind.COALESCING_DIFFERS: (
        "A request to global memory takes {source_sectors:.3g} sectors on {source} and {target_sectors:.3g} on"
        " {target}."
    ),
    CaveatKind.L1_USE_DIFFERS: "L1 of {subject} caches global loads, L1 of {other} does not.",
    CaveatKind.LOAD_IMBALANCE: (
        "Load imbalance: the busiest block does {block:.3g} times the mean, the busiest warp of a block {warp:.3g}"
        " times. The models assume even work."
    ),
    CaveatKind.SMS_IDLE: "Tail effect: {idle} of {sms} SMs of {subject} have no block (blocks in the grid: {blocks}).",
    CaveatKind.LAST_WAVE_PARTLY_EMPTY: "Tail effect: {waves:.3g} waves of blocks on {subject} take as long as {whole}.",
    CaveatKind.LAUNCH_BOUND: (
        "Launch-bound: the launch takes about {overhead:seconds} of the measured {measured:seconds}, which does not"
        " change with the roofs."
    ),
    CaveatKind.ROOFS_CLOSE: (
        "The roofs of arithmetic ({compute:seconds}) and DRAM ({dram:seconds}) are within {margin:percent} on"
        " {subject}."
    ),
    CaveatKind.ROOF_CHANGES: "The roof is {source_roof} on {source}, but {target_roof} on {target}.",
    CaveatKind.EFFICIENCY_OF_OTHER_GENERATION: (
        "The efficiency is carried over from compute capability {source} to {target}, another generation."
    ),
    # The published convolution model.
    CaveatKind.CONVOLUTION_GRID_DIFFERS: (
        "The published kernel would have the grid {published}, not {launched}. The forecast is for the layer, not"
        " for this launch."
    ),
    CaveatKind.NO_LAUNCH_OVERHEAD: (
        "The model {subject} knows no launch overhead. Its time is the kernel's own duration, not {asked}."
    ),
    CaveatKind.BANDWIDTH_OF_V100: (
        "The published DRAM bandwidth is that of a V100: {published:gbs}, above the {data_sheet:gbs} of the data sheet."
    ),
    CaveatKind.LATENCY_METHOD_REPLACED: (
        "The paper found memory times by latencies inaccurate and replaced them. See --model convolution."
    ),
    CaveatKind.TILE_BELOW_ONE_READ: (
        "The input of a block, {tile:plain_bytes}, is less than one read of {read:plain_bytes}. The published"
        " division of whole numbers counts it as none."
    ),
    CaveatKind.TILE_ABOVE_SHARED_MEMORY: (
        "The input of a block, {tile:plain_bytes}, is over the {limit:plain_bytes} of shared memory that a block"
        " gets. The published kernel would not compile, but is forecast as published."
    ),
    CaveatKind.CONSTANTS_PUBLISHED: (
        "The constants are those published for the {subject}, at {clock_hz:mhz} with any --clock."
    ),
    CaveatKind.CONSTANTS_OF_GPU_FILE: (
        "The model was published for the {subject} alone. SMs, clock, FP32 rate, limits, DRAM bandwidth and"
        " latencies are from the GPU's own file; the integer rate is {ratio:g} times the FP32 rate, as published."
    ),
    # Deep-learning operators.
    CaveatKind.OPERATOR_INTERVAL: (
        "{level:level} interval: the error on GPUs that were left out ({cases} measured operators; {subject}), by what"
        " limits them. Half of the operators have forecast / {usual:.3g} to forecast x {usual:.3g}, or narrower."
    ),
    CaveatKind.OPERATOR_GPU_NOT_MEASURED: (
        "No operator of this kind was measured on {subject}. The libraries may have other kernels there."
    ),
    CaveatKind.OPERATOR_TAKEN_AS: "{subject} was not measured: it is taken to be like {other}.",
    CaveatKind.OPERATOR_BEYOND_MEASURED: (
        "No operator like this one was measured on a GPU of its architecture: the forecast is that of the physics, as"
        " far as it differs."
    ),
    CaveatKind.OPERATOR_TIMED_SO: (
        "The time is that of one call of PyTorch between CUDA events, dispatch included, as the measured operators"
        " were timed. --timing series leaves the dispatch out."
    ),
    CaveatKind.OPERATOR_TIMED_OTHERWISE: (
        "The measured operators were timed otherwise (--timing {subject}). What a launch adds was exchanged for that of"
        " the timing asked for."
    ),
    # Trained models from files.
    CaveatKind.LEARNED_FROM: (
        "{subject} learned from {launches} launches of {kernels} kernels on {gpus} ({data}). Its times are of the kind"
        " that it learned, whatever the timing asked for."
    ),
    CaveatKind.LEARNED_INTERVAL: (
        "{level:level} interval: with {subject} held out ({groups} in all, which count alike), this share of {launches}"
        " launches was forecast within / {factor:.3g} to x {factor:.3g}."
    ),
    CaveatKind.LEARNED_INTERVAL_ASSUMED: (
        "{level:level} interval: the data of the model held only one of the {subject}, so that nothing tells its error"
        " on others. An error of / {factor:.3g} to x {factor:.3g} is assumed."
    ),
    CaveatKind.LEARNED_ERRORS_UNKNOWN: (
        "{level:level} interval: the file is of format {subject}, which keeps no errors. An error of / {factor:.3g} to"
        " x {factor:.3g} is assumed. Train the model again to have measured errors."
    ),
    CaveatKind.LEARNED_KERNEL_NEW: "The model learned from no launch of {subject}.",
    CaveatKind.LEARNED_GPU_NEW: "The model learned from no launch on {subject}.",
    CaveatKind.LEARNED_FAR: (
        "No launch that the model learned from is like this one: the nearest is {times:.2g} times as far as those are"
        " from one another. It counts as a new kernel."
    ),
    CaveatKind.LEARNED_OUTSIDE: (
        "{features} features lie outside the range that the model learned from, by up to x {factor:.3g}: {subject}."
        " The interval is wider by this factor."
    ),
    CaveatKind.LEARNED_COUNTERS_EXECUTED: (
        "{features} features are executed or simulated here. Their errors come to those of the model."
    ),
    CaveatKind.LEARNED_COUNTERS_NEAR: (
        "No counter of the executor is the same as these; the nearest one stands in for each: {subject}. The interval"
        " counts what x {factor:.2g} and / {factor:.2g} of each do to the forecast."
    ),
    CaveatKind.LEARNED_TIME_SIMULATED: (
        "These features follow from the time, which is simulated here: {subject}. The interval counts the simulation's"
        " own error of / {factor:.3g} to x {factor:.3g}."
    ),
    # Bounds on parts of a GPU.
    CaveatKind.SLOWER_WITH_MORE_TPCS: (
        "The kernel was slower on more TPCs than on fewer, beyond the spread of its repeats. The bound assumes"
        " otherwise, and the longer time is used for both."
    ),
    CaveatKind.LESS_WORK_WITH_MORE_TPCS: (
        "The kernel sped up by more than its TPCs grew, beyond the spread of its repeats. Its blocks are slower on"
        " fewer TPCs, where the bound between measured counts may fail."
    ),
    CaveatKind.TIME_ABOVE_BOUND_OF_OTHERS: (
        "A measured time is above the bound that the other ones give. The kernel is no such schedule, and other"
        " times may be above the bound too."
    ),
    CaveatKind.TIME_FAR_FROM_SIMULATION: (
        "A measured time is outside the interval of its simulation. Check that it is of this launch and this GPU: the"
        " bounds of other counts rest on the simulated curve."
    ),
    CaveatKind.SIMULATION_ABOVE_WORST_PATH: (
        "The simulated time is above the worst path somewhere, so that one of its assumptions does not hold for this"
        " kernel. The bounds are raised to the simulated times, and nothing proves them there."
    ),
    CaveatKind.TIME_ABOVE_WORST_PATH: (
        "A measured time is above the worst path: an assumption does not hold here. Other work, another clock or other"
        " inputs are likely causes. The bounds are raised to what was measured, and not safe elsewhere."
    ),
    CaveatKind.NO_STAIRCASE: "No grid of equal blocks has these times. The bound is that of list-scheduling.",
    CaveatKind.MARGIN_TOO_SMALL: "The largest margin, {margin:percent}, did not lift every time that it was judged by.",
    CaveatKind.NO_TIME_ABOVE_ZERO: (
        "The method forecasts no time above 0 on {subject} TPCs. A bound of 0 s is no bound."
    ),
    CaveatKind.BOUND_ABOVE_MEDIAN: "By all repeats, a run may take {factor:.3g} times the median at this risk.",
    CaveatKind.SMS_PER_TPC_UNKNOWN: "The SMs per TPC of {subject} are unknown. Each SM counts as a TPC.",
    CaveatKind.MEASURE_NEXT: "A time on {tpcs} TPCs would tighten the bounds most.",
    # Occupancy.
    CaveatKind.NO_BLOCK_FITS: "Not one block fits: {reason:open}.",
    CaveatKind.OVER_LAUNCH_BOUNDS: (
        "The launch fails: a block has {threads} threads, and the kernel was compiled for {most} at most"
        " (__launch_bounds__)."
    ),
    CaveatKind.SHARED_MEMORY_OPT_IN: (
        "A block with over {limit:kib} of shared memory needs cudaFuncSetAttribute(…,"
        " cudaFuncAttributeMaxDynamicSharedMemorySize, …) before the launch."
    ),
    CaveatKind.CARVEOUT_HAS_NO_EFFECT: "L1 and shared memory do not share one memory, so the carve-out has no effect.",
    CaveatKind.CARVEOUT_PERCENTAGE_IGNORED: "A percentage has no effect: only l1, equal and shared are heeded.",
    CaveatKind.CURVES_CUT: "{subject} has the first {shown} of {rows} rows. A .csv has all.",
}

#: How a template shows a number or a text, by the name after the colon.
_SHOWN: dict[str, Callable[[Any], str]] = {
    "bytes": format_bytes,
    "class": describe_class,
    "gbs": lambda rate: f"{rate / GIGA:g} GB/s",
    "kib": lambda size: f"{size / KIB:g} KiB",
    "level": lambda share: f"{share / PERCENT:.6g} %",
    "mhz": lambda clock: f"{clock / MEGA:.0f} MHz",
    "open": lambda text: text.removesuffix("."),
    "resources": describe_resources,
    "percent": lambda share: f"{share:.0%}".replace("%", " %"),
    "plain_bytes": lambda size: f"{size:.0f} bytes",
    "seconds": format_seconds,
}


class _Words(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a field as the template asks for it; numbers of things are whole."""
        if format_spec in _SHOWN:
            return _SHOWN[format_spec](value)
        if not format_spec and isinstance(value, float) and value.is_integer():
            return str(int(value))
        return str(super().format_field(value, format_spec))


def describe_caveat(caveat: Caveat) -> str:
    """Return a caveat as sentences that can be read alone.

    >>> describe_caveat(Caveat.of(CaveatKind.SCALED_FROM_SAMPLE, executed=240, blocks=4096))
    'The counts are scaled from 240 of 4096 blocks.'
    """
    return _Words().vformat(WORDS[caveat.kind], (), {"subject": caveat.subject, **caveat.details})


def describe_caveats(caveats: Iterable[Caveat]) -> list[str]:
    """Return the sentences of some caveats, in their order."""
    return [describe_caveat(caveat) for caveat in caveats]


def with_gpus(text: str, gpus: Sequence[str], most: int = MOST_GPUS) -> str:
    """Return a sentence after the names of the GPUs that it is true of, of many the first ones.

    >>> with_gpus("It is slow.", ["T4", "A2"])
    'T4, A2: It is slow.'
    """
    return f"{some_of(gpus, most)}: {text}"


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many others there are.

    >>> some_of(["T4", "A2", "L4", "L40"], 2), some_of(["T4", "A2", "L4"], 2)
    ('T4, A2 and 2 others', 'T4, A2, L4')
    """
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} others"


#: Letters of a kernel's name that a sentence holds; those of CUTLASS have thousands.
_NAME_LETTERS = 120


def describe_name(name: str, most: int = _NAME_LETTERS) -> str:
    """Return a kernel's name with its middle left out where it is long; its end tells instances of a template apart.

    >>> describe_name("void f<float, 64>(const float *, float *, unsigned long long, int)", 48)
    'void f<float, 64>(const…*, unsigned long long, int)'
    """
    half = (most + 2) // 2
    return name if len(name) <= 2 * half else f"{name[: half - 2]}…{name[-half - 2 :]}"


def all_of(names: Sequence[str]) -> str:
    """Return names as a sentence lists them.

    >>> all_of(["Hopper"]), all_of(["Hopper", "Ada", "Blackwell"])
    ('Hopper', 'Hopper, Ada and Blackwell')
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def caveat_fields(caveats: Iterable[Caveat]) -> dict[str, Any]:
    """Return the two fields that every JSON with caveats has: the sentences, and what they are made from."""
    return sentence_fields((caveat, describe_caveat(caveat)) for caveat in caveats)


def sentence_fields(sentences: Iterable[tuple[Caveat, str]]) -> dict[str, Any]:
    """Return the same two fields where each caveat has a sentence of its own, such as one with the GPUs named."""
    details = [
        {
            "kind": caveat.kind.value,
            "subject": caveat.subject,
            "numbers": dict(caveat.numbers),
            "texts": dict(caveat.texts),
            "text": text,
        }
        for caveat, text in sentences
    ]
    return {"caveats": [each["text"] for each in details], "caveat_details": details}
