"""What must hold of the published model of a convolution layer for every layer, block and GPU."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kerncast.gpu import GPU, list_gpus
from kerncast.models.published.convolution import (
    Convolution,
    ConvolutionLatency,
    ConvolutionLayer,
    bandwidth_time,
    blocks_at_a_time,
    compute_time,
    latency_time,
    machine_of,
    operational_intensity,
    published_titan_v,
)

TITAN_V = published_titan_v()
gpus = st.sampled_from([gpu for gpu in list_gpus() if gpu.dram_rate and gpu.dram_latency and gpu.l2_latency])
models = st.sampled_from([Convolution(), ConvolutionLatency()])


@st.composite
def layers(draw: st.DrawFn) -> ConvolutionLayer:
    """Draw a layer whose block the published formulas take."""
    block_x = draw(st.integers(1, 32))
    sizes = {name: draw(st.integers(1, 600)) for name in ("nx", "ny", "ni", "nn")}
    filters = {name: draw(st.integers(1, 15)) for name in ("kx", "ky")}
    return ConvolutionLayer(**sizes, **filters, block_x=block_x, block_y=draw(st.integers(1, 1024 // block_x)))


@given(layers(), gpus, models)
def test_times_are_positive_and_the_terms_add_up(
    layer: ConvolutionLayer, gpu: GPU, model: Convolution | ConvolutionLatency
) -> None:
    if layer.tile_bytes > gpu.architecture.shared_bytes_per_sm:
        return
    found = model.of_layer(layer, gpu)
    assert 0 < found.seconds < math.inf
    assert math.isclose(sum(term.seconds for term in found.terms), found.seconds)
    assert found.limiter in {term.name for term in found.terms}


@given(layers())
def test_the_grid_covers_the_outputs_once(layer: ConvolutionLayer) -> None:
    across, down, deep = layer.grid
    assert (across - 1) * layer.block_x < layer.nx <= across * layer.block_x
    assert (down - 1) * layer.block_y < layer.ny <= down * layer.block_y
    assert deep == layer.nn
    found = compute_time(layer, TITAN_V)
    assert found.active_sms * found.blocks_per_sm >= layer.blocks > found.active_sms * (found.blocks_per_sm - 1)


@given(layers())
def test_resident_blocks_fit_an_sm(layer: ConvolutionLayer) -> None:
    per_sm, left = divmod(blocks_at_a_time(layer, TITAN_V), TITAN_V.sm_count)
    assert left == 0
    assert 1 <= per_sm <= TITAN_V.blocks_per_sm
    assert per_sm * layer.threads_per_block <= TITAN_V.threads_per_sm
    assert per_sm * layer.tile_bytes <= TITAN_V.shared_bytes_per_sm


@given(layers(), st.integers(2, 50))
def test_operations_grow_with_the_channels(layer: ConvolutionLayer, factor: int) -> None:
    more = replace(layer, nn=layer.nn * factor)
    assert more.flops == factor * layer.flops
    assert factor * layer.int_ops <= more.int_ops < factor * (layer.int_ops + 1)
    assert operational_intensity(more).l1 >= factor * operational_intensity(layer).l1 * (1 - 1e-9)


@given(layers(), gpus, st.floats(1, 100))
def test_a_better_machine_is_never_slower(layer: ConvolutionLayer, gpu: GPU, factor: float) -> None:
    machine = machine_of(gpu)
    if layer.tile_bytes > machine.shared_bytes_per_sm:
        return
    faster = replace(machine, clock_hz=machine.clock_hz * factor, flops_per_s=machine.flops_per_s * factor)
    assert compute_time(layer, faster).seconds <= compute_time(layer, machine).seconds
    for method in (bandwidth_time, latency_time):
        assert method(layer, faster).seconds <= method(layer, machine).seconds
