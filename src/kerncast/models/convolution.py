"""The published model of a convolution layer, with its two memory times: by DRAM bandwidth, and by latencies."""

import re
from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

from kerncast.architecture import WARP_SIZE
from kerncast.errors import InputError, LaunchError, MissingEvidenceError, UnsupportedError
from kerncast.gpu import GPU
from kerncast.launch import Launch
from kerncast.models.base import Case, Estimate, Model
from kerncast.models.convolution_equations import (
    DRAM_READ_BYTES,
    ConvolutionLayer,
    ConvolutionMachine,
    MemoryTime,
    bandwidth_time,
    compute_time,
    execution_seconds,
    latency_time,
    published_gpu_id,
    published_titan_v,
)
from kerncast.prediction import Term, Timing
from kerncast.units import GIGA, MEGA

#: The names of the layer's sizes in the published kernel, and those of ``ConvolutionLayer``.
SIZES = {"Nx": "nx", "Ny": "ny", "Kx": "kx", "Ky": "ky", "Ni": "ni", "Nn": "nn"}
_WHOLE = re.compile(r"\s*[+-]?\d{1,30}\s*")


def layer_of(launch: Launch | None, kernel: str) -> ConvolutionLayer:
    """Return the layer that a launch computes: sizes from its macros and scalar arguments, threads from its block.

    Raises MissingEvidenceError that names what is missing, LaunchError for sizes that contradict one another or that no
    layer has, UnsupportedError for a block in three dimensions.
    """
    if launch is None:
        raise MissingEvidenceError(
            f"the sizes of the convolution layer are unknown: of {kernel} only counts are given",
            cure=f"Give its launch, with {', '.join(SIZES)} among defines or args.",
        )
    found = {name: _size(launch, name) for name in SIZES}
    missing = [name for name, size in found.items() if size is None]
    if missing:
        raise MissingEvidenceError(
            f"sizes of the convolution layer are missing, or no whole numbers: {', '.join(missing)}",
            where=launch.label,
            cure="Give each as a whole number among defines or args.",
        )
    if launch.block[2] != 1:
        raise UnsupportedError(
            f"block {list(launch.block)} has threads along z, and the published kernel has none", where=launch.label
        )
    sizes = {SIZES[name]: size for name, size in found.items() if size is not None}
    try:
        return ConvolutionLayer(**sizes, block_x=launch.block[0], block_y=launch.block[1])
    except InputError as error:
        raise LaunchError(error.what, where=launch.label, cure=error.cure) from None


def _size(launch: Launch, name: str) -> int | None:
    """Return a size that is given as a macro or as an argument; None where neither is a whole number."""
    defined = [int(text) for key, text in launch.defines if key == name and _WHOLE.fullmatch(text)]
    passed = [
        each.value
        for each in launch.arguments
        if each.name == name and isinstance(each.value, int) and not isinstance(each.value, bool)
    ]
    sizes = dict.fromkeys([*defined, *passed])
    if len(sizes) > 1:
        raise LaunchError(
            f"{name} is {' and '.join(map(str, sizes))}", where=launch.label, cure="Give one size, or the same twice."
        )
    return next(iter(sizes), None)


def machine_of(gpu: GPU) -> ConvolutionMachine:
    """Return the published constants for the TITAN V, and for another GPU what its file says.

    The integer rate stays the published four times of the FP32 rate: what the count of operations is divided by was
    found with it.
    """
    published = published_titan_v()
    if gpu.id == published_gpu_id():
        return published
    a, dram = gpu.architecture, gpu.dram_rate
    return ConvolutionMachine(
        name=gpu.name,
        sm_count=gpu.sm_count,
        flops_per_s=gpu.peak_fp32_flops_per_s,
        int_ops_per_s=gpu.peak_fp32_flops_per_s * published.int_ops_per_s / published.flops_per_s,
        threads_per_sm=a.max_threads_per_sm,
        warps_per_sm=a.max_threads_per_sm // WARP_SIZE,
        blocks_per_sm=a.max_blocks_per_sm,
        shared_bytes_per_sm=a.shared_bytes_per_sm,
        shared_bytes_per_block=a.shared_bytes_per_block,
        clock_hz=gpu.clock_hz,
        dram_bytes_per_s=None if dram is None else dram.bytes_per_s,
        shared_latency_cycles=a.cycles.shared_latency,
        l2_latency_cycles=gpu.l2_latency,
        dram_latency_cycles=gpu.dram_latency,
    )


class _ConvolutionModel(Model):
    """What both memory times have in common: the layer, the compute time, and how all is added up."""

    @abstractmethod
    def memory_time(self, layer: ConvolutionLayer, machine: ConvolutionMachine) -> MemoryTime:
        """Return the memory time; raises MissingEvidenceError."""

    @abstractmethod
    def memory_terms(self, memory: MemoryTime) -> tuple[Term, ...]:
        """Return the parts of the memory time by what limits them."""

    @abstractmethod
    def method_caveats(self, layer: ConvolutionLayer, gpu: GPU) -> tuple[str, ...]:
        """Return what is wrong with the memory time by the paper's own word, for this layer or for this GPU."""

    def estimate(self, case: Case, timing: Timing) -> Estimate:
        """Return compute and memory time, added as in the paper's tables; no launch overhead."""
        layer = layer_of(case.launch, case.profile.kernel)
        found = self.of_layer(layer, case.gpu)
        notes: list[str] = []
        if case.profile.grid != layer.grid:
            notes.append(
                f"the published kernel would have the grid {layer.grid}, not {case.profile.grid}: the forecast is"
                " for the layer, not for this launch"
            )
        if timing is not Timing.PROFILER:
            notes.append(f"{self.name} knows no launch overhead: its time is the kernel's own duration, not {timing}")
        return replace(found, caveats=(*found.caveats, *notes))

    def of_layer(self, layer: ConvolutionLayer, gpu: GPU) -> Estimate:
        """Return the same without a launch; raises MissingEvidenceError, UnsupportedError."""
        machine = machine_of(gpu)
        compute, memory = compute_time(layer, machine), self.memory_time(layer, machine)
        terms = self.memory_terms(memory)
        seconds = execution_seconds(compute, memory)
        slowest = max(terms, key=lambda term: term.seconds).name
        return Estimate(
            seconds=seconds,
            limiter="compute" if compute.seconds > memory.seconds else slowest,
            terms=(Term("compute", compute.seconds), *terms),
            low=seconds,
            high=seconds,
            caveats=(_constants(machine, gpu), *_shared_warning(layer, machine), *self.method_caveats(layer, gpu)),
        )


class Convolution(_ConvolutionModel):
    """Compute time plus memory time by DRAM bandwidth, method 2, which replaced method 1 in the paper.

    t = turns x max(FLOP / rate, INT / rate) + (input + weight bytes) / bandwidth + reads of shared memory, with
    FLOP = 2 Nx Ny Kx Ky Ni Nn; all equations stand in ``convolution_equations.py``. Only the sizes of the layer and of
    a block are looked at, nothing of the kernel's code.

    Source: "Mini-Project 2: Convolutional Kernel Explanation", 2025. Where its text and figures differ from its tables
    of results, the tables count: docs/convolution.md.
    Fails when: launch overhead or latency decide (few channels: 14 times too fast), or caches serve the weights (many
    channels: 3.6 times too slow).

    >>> from kerncast.gpu import load_gpu
    >>> layer = ConvolutionLayer(nx=32, ny=32, kx=3, ky=3, ni=32, nn=32, block_x=4, block_y=4)
    >>> print(f"{Convolution().of_layer(layer, load_gpu('TITAN V')).seconds * 1e3:.3f}")
    0.068
    """

    name: ClassVar[str] = "convolution"
    log_sigma: ClassVar[float] = 1.0

    def memory_time(self, layer: ConvolutionLayer, machine: ConvolutionMachine) -> MemoryTime:
        """Return bytes over bandwidth, and the reads of shared memory."""
        return bandwidth_time(layer, machine)

    def memory_terms(self, memory: MemoryTime) -> tuple[Term, ...]:
        """Return what comes from DRAM and what from shared memory."""
        return Term("dram", memory.input_seconds + memory.weight_seconds), Term("shared", memory.shared_seconds)

    def method_caveats(self, layer: ConvolutionLayer, gpu: GPU) -> tuple[str, ...]:
        """Return that no TITAN V has the published bandwidth."""
        del layer
        published = machine_of(gpu).dram_bytes_per_s
        if published is None or published <= gpu.dram_bytes_per_s:
            return ()
        above = f"{published / GIGA:g} GB/s, above the {gpu.dram_bytes_per_s / GIGA:g} GB/s of the data sheet"
        return (f"the published DRAM bandwidth is that of a V100: {above}",)


class ConvolutionLatency(_ConvolutionModel):
    """Compute time plus memory time by latencies, method 1.

    Reads of a block follow one another, those of the blocks that fit on all SMs run side by side.

    Source: as ``Convolution``, which replaced it: "unfortunately inaccurate". Its tables have no number of this method.
    Fails when: reads of a block overlap, which they do on any GPU; a block's tile of less than 128 bytes costs nothing.

    >>> from kerncast.gpu import load_gpu
    >>> layer = ConvolutionLayer(nx=32, ny=32, kx=3, ky=3, ni=32, nn=32, block_x=32, block_y=32)
    >>> estimate = ConvolutionLatency().of_layer(layer, load_gpu("TITAN V"))
    >>> tile_us = 375 / 1.2e3 * 36 * 32 * 32 / 160  # 36 reads of 375 cycles for 32 channels, 32 blocks, 160 at a time
    >>> print(f"{tile_us:.0f} of {estimate.seconds * 1e6:.1f}")
    72 of 80.4
    """

    name: ClassVar[str] = "convolution-latency"
    log_sigma: ClassVar[float] = 1.0

    def memory_time(self, layer: ConvolutionLayer, machine: ConvolutionMachine) -> MemoryTime:
        """Return reads times their latencies over the blocks that run at a time."""
        return latency_time(layer, machine)

    def memory_terms(self, memory: MemoryTime) -> tuple[Term, ...]:
        """Return all as latency."""
        return (Term("latency", memory.seconds),)

    def method_caveats(self, layer: ConvolutionLayer, gpu: GPU) -> tuple[str, ...]:
        """Return that the paper gave the method up, and where it counts no reads."""
        del gpu
        caveats = ["the paper found memory times by latencies inaccurate and replaced them: see --model convolution"]
        if layer.tile_bytes < DRAM_READ_BYTES:
            caveats.append(
                f"a block's input of {layer.tile_bytes} bytes is less than one read of {DRAM_READ_BYTES}, which the"
                " published division of whole numbers counts as none"
            )
        return tuple(caveats)


def _constants(machine: ConvolutionMachine, gpu: GPU) -> str:
    if gpu.id == published_gpu_id():
        clock = f"{machine.clock_hz / MEGA:.0f} MHz"
        return f"the constants are those published for the {machine.name}, at {clock} whatever --clock"
    ratio = machine.int_ops_per_s / machine.flops_per_s
    return (
        f"published for the {published_titan_v().name} alone: SMs, clock, FP32 rate, limits, DRAM bandwidth and"
        f" latencies are those of the GPU's own file, the integer rate is {ratio:g} times the FP32 rate, as published"
    )


def _shared_warning(layer: ConvolutionLayer, machine: ConvolutionMachine) -> list[str]:
    if layer.tile_bytes <= machine.shared_bytes_per_block:
        return []
    limit = machine.shared_bytes_per_block
    over = f"a block's input of {layer.tile_bytes} bytes is over the {limit} bytes of shared memory that a block gets"
    return [f"{over}: the published kernel would not compile; forecast all the same, as published"]
