"""Layers of experts against times worked by hand, their routing, and what no change of sizes or of a GPU may do."""

import time
from dataclasses import replace
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncast.errors import MissingEvidenceError
from kerncast.gpu import GPU, load_gpu
from kerncast.models.operators.experts import FITTED, Constants, Experts, OverTypical
from kerncast.models.operators.operator_work import OperatorBatch, OperatorWork, batches_of
from kerncast.models.operators.routing import TILE_ROWS, BusiestGPU, Routing
from kerncast.operators import parse_operator
from kerncast.prediction import Timing
from tests.helpers.thorough import examples

A100, L40S, H100 = (load_gpu(name) for name in ("A100 SXM 80GB", "L40S", "H100 SXM"))
TINY, HUGE = 1, 2**40
#: The constants as they were guessed before any fit, which none moves: for times worked by hand.
GUESSED = Experts(Constants.prior())
FORMATS = ("bf16", "fp16", "fp8", "fp8_block", "int4_wo", "mxfp4_wo")
LIBRARIES = ("", "trtllm", "vllm", "sglang")
gpus = st.sampled_from((A100, L40S, H100, load_gpu("B200"), load_gpu("RTX 4090"), load_gpu("GH200")))
layers = st.builds(
    "moe(T={},H={},F={},topk={},E={},ep={},routing={},library={})".format,
    st.sampled_from((1, 7, 64, 500, 8192, 65536)), st.sampled_from((512, 4096, 7168)),
    st.sampled_from((256, 2048, 14336)), st.sampled_from((1, 2, 8)), st.sampled_from((8, 128, 256)),
    st.sampled_from((1, 4, 8)), st.sampled_from((0, 101, 120)), st.sampled_from(LIBRARIES),
)  # fmt: skip


def batch_of(*texts: str) -> OperatorBatch:
    ((found, _),) = batches_of([parse_operator(text) for text in texts])
    return found


def work_of(text: str, gpu: GPU = A100, timing: Timing = Timing.SERIES) -> OperatorWork:
    return Experts().work(batch_of(text), gpu, timing)


def seconds(text: str, gpu: GPU = A100, timing: Timing = Timing.SERIES) -> float:
    return float(work_of(text, gpu, timing).seconds[0])


def guessed_seconds(text: str) -> float:
    return float(GUESSED.work(batch_of(text), A100, Timing.SERIES).seconds[0])


def guessed_resource(name: str, text: str, timing: Timing = Timing.SERIES) -> float:
    (found,) = (each for each in GUESSED.work(batch_of(text), A100, timing).resources if each.name == name)
    return float(found.seconds[0])


def feature(name: str, text: str, gpu: GPU = A100) -> float:
    return float(work_of(text, gpu).features[0, Experts().features.index(name)])


def routed(tokens: float, topk: float, experts: float, gpus: float = 1, exponent: float = 0) -> BusiestGPU:
    return Routing(*(np.array([float(size)]) for size in (tokens, topk, experts, gpus, exponent))).busiest()


def test_many_tokens_are_products_over_the_sustained_rate() -> None:
    """Three products of 131072 rows with [4096, 14336]: 46.2 TFLOP; 2 x 1024 x 0.8 x 108 x 1.336 GHz per second."""
    flops = 2 * 3 * 2 * 65536 * 4096 * 14336
    rate = 2 * 1024 * 0.8 * 108 * (1.275e9 + 0.45 * 0.135e9)
    text = "moe(T=65536,H=4096,F=14336,topk=2,E=8)"
    assert guessed_resource("tensor", text) == pytest.approx(flops / rate, rel=0.01)
    assert 1 < guessed_seconds(text) / (flops / rate) < 1.5


def test_one_token_is_its_experts_weights_over_bandwidth() -> None:
    """Eight experts of three [7168, 2048] matrices in 16 bits: 705 MB at 0.82 x 2039 GB/s, and the launch."""
    text = "moe(T=1,H=7168,F=2048,topk=8,E=256)"
    dram_s = 8 * 3 * 7168 * 2048 * 2 / (0.82 * 2.039e12)
    assert guessed_resource("dram", text) == pytest.approx(dram_s, rel=1e-6)
    launch_s = guessed_resource("launch", text)
    assert dram_s + launch_s < guessed_seconds(text) < 1.15 * dram_s + launch_s


@pytest.mark.parametrize(("form", "bits"), [("int4_wo", 4.125), ("mxfp4_wo", 4.25)])
def test_small_weights_take_fewer_bytes(form: str, bits: float) -> None:
    dram_s = 8 * 3 * 7168 * 2048 * bits / 8 / (0.82 * 2.039e12)
    found = guessed_resource("dram", f"moe(T=1,H=7168,F=2048,topk=8,E=256,dtype={form})")
    assert found == pytest.approx(dram_s, rel=1e-6)


def test_smallest_layer_is_the_chain_of_launches() -> None:
    """11 us and 20000 cycles; the sort of one row over one expert has 1 - exp(-1 / 8) of its 8000."""
    launch_s = 11e-6 + (20_000 + 8_000 * (1 - exp(-1 / 8))) / 1.41e9
    text = "moe(T=1,H=8,F=8,topk=1,E=1)"
    assert guessed_resource("launch", text) == pytest.approx(launch_s)
    assert launch_s < guessed_seconds(text) < 1.05 * launch_s


def test_other_timings_exchange_one_launch() -> None:
    text = "moe(T=16,H=1024,F=1024,topk=2,E=8)"
    series = seconds(text)
    assert seconds(text, timing=Timing.SINGLE) == pytest.approx(series + 2.75e-6 - 1.6e-6)
    assert seconds(text, timing=Timing.PROFILER) == pytest.approx(series)


def test_weights_that_fit_stay_in_l2_unless_it_was_flushed() -> None:
    """One expert of three [1024, 1024] matrices, 6.3 MB of 41.9: a tenth is read again."""
    text = "moe(T=1,H=1024,F=1024,topk=1,E=1)"
    dram_s = 3 * 1024**2 * 2 / (0.82 * 2.039e12)
    assert guessed_resource("dram", text) == pytest.approx(0.1 * dram_s)
    assert guessed_resource("dram", text, timing=Timing.COLD) == pytest.approx(dram_s)


def test_gpus_that_share_an_expert_have_a_part_of_it() -> None:
    whole, shared = "moe(T=512,H=4096,F=2048,topk=2,E=8)", "moe(T=512,H=4096,F=8192,tp=4,topk=2,E=8)"
    assert seconds(whole) == seconds(shared)


def test_only_some_libraries_move_rows_of_other_gpus() -> None:
    """Of 65536 x 8 rows, one GPU of 128 has 4096: 168 MB in a pass for TensorRT-LLM, 20 GB for vLLM."""
    text = "moe(T=65536,H=7168,F=2048,topk=8,E=256,ep=128,library={})"
    assert seconds(text.format("vllm")) > 3 * seconds(text.format("trtllm"))


def test_libraries_in_one_batch_are_as_in_their_own() -> None:
    texts = [f"moe(T={tokens},H=4096,F=2048,topk=8,E=128,routing=120,library={library})"
             for tokens in (4, 512, 9000) for library in (*LIBRARIES, "")]  # fmt: skip
    found = Experts().work(batch_of(*texts), H100, Timing.SERIES)
    assert found.seconds.tolist() == pytest.approx([seconds(text, H100) for text in texts], rel=1e-12)
    by_library = found.seconds.reshape(3, 5)
    assert len(np.unique(by_library[:, :4])) == 12
    np.testing.assert_array_equal(by_library[:, 0], by_library[:, 4])


def test_large_batches_are_as_small_ones() -> None:
    texts = [f"moe(T={tokens},H=512,F=512,topk=2,E=8)" for tokens in range(1, 4200)]
    found = Experts().work(batch_of(*texts), A100, Timing.SERIES)
    assert found.seconds[[0, 4095, 4198]].tolist() == [seconds(texts[place]) for place in (0, 4095, 4198)]


def test_features_end_with_what_residuals_choose_by() -> None:
    names = Experts().features
    text = "moe(T=64,H=4096,F=2048,topk=8,E=128,dtype=fp8,library=vllm)"
    found = work_of(text, H100).features
    assert found.shape == (1, len(names))
    assert names[-7:] == (
        "trtllm", "vllm", "sglang", "unknown_library", "weight_bytes", "products_over_fp16", "architecture",
    )  # fmt: skip
    assert found[0, -7:].tolist() == [0, 1, 0, 0, 1, 2, 90]


def test_features_tell_the_routing() -> None:
    text = "moe(T=1024,H=4096,F=2048,topk=8,E=128,routing={})"
    assert feature("ln_imbalance", text.format(0)) == 0
    assert feature("ln_imbalance", text.format(120)) > 1
    assert feature("routing_exponent", text.format(120)) == pytest.approx(1.2)


@settings(max_examples=examples(25), deadline=None)
@given(layers, gpus)
def test_a_faster_gpu_is_never_slower(text: str, gpu: GPU) -> None:
    assert gpu.l2_rate is not None
    slow = replace(gpu, l2_bytes_per_s=gpu.l2_rate.bytes_per_s)
    for faster in (
        replace(slow, dram_bytes_per_s=1.5 * gpu.dram_bytes_per_s),
        replace(slow, l2_bytes_per_s=1.5 * gpu.l2_rate.bytes_per_s),
        replace(slow, l2_bytes=2 * (gpu.l2_bytes or 0)),
        slow.at_clock(1.2 * gpu.clock_hz),
    ):
        assert seconds(text, faster) <= seconds(text, slow) * (1 + 1e-12)


@settings(max_examples=examples(25), deadline=None)
@given(layers, gpus, st.sampled_from(("T", "H", "F", "topk")))
def test_twice_as_much_work_is_never_faster(text: str, gpu: GPU, size: str) -> None:
    balanced = parse_operator(text.replace("routing=101", "routing=0").replace("routing=120", "routing=0"))
    place = balanced.kind.dimensions.index(size)
    more = tuple(2 * each if n == place else each for n, each in enumerate(balanced.sizes))
    ((both, _),) = batches_of([balanced, replace(balanced, sizes=more)])
    once, twice = Experts().work(both, gpu, Timing.SERIES).seconds
    assert twice >= once * (1 - 1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("timing", list(Timing))
def test_extreme_sizes_have_finite_times(form: str, timing: Timing) -> None:
    names = ("T", "H", "F", "topk", "E", "tp", "ep")
    texts = [
        f"moe({','.join(f'{name}={HUGE if name in huge else TINY}' for name in names)},routing={law},dtype={form})"
        for huge in ((), names, *((name,) for name in ("T", "H", "F", "E", "tp")), ("T", "E"), ("T", "topk", "E"),
                     ("T", "E", "ep"))
        for law in (0, 1, 100, 120, HUGE)
    ]  # fmt: skip
    found = Experts().work(batch_of(*texts), H100, timing)
    assert np.isfinite(found.seconds).all()
    assert (found.seconds > 0).all()
    assert np.isfinite(found.features).all()
    for each in found.resources:
        assert np.isfinite(each.seconds).all(), each.name


def test_what_is_not_known_is_refused() -> None:
    text = "moe(T=64,H=4096,F=2048,topk=8,E=128)"
    with pytest.raises(MissingEvidenceError, match="l2_kib is unknown"):
        seconds(text, replace(A100, l2_bytes=None))
    with pytest.raises(MissingEvidenceError, match="L2 bandwidth is unknown"):
        seconds(text, replace(A100, l2_bytes_per_s=None, dram_bus_bits=None))
    with pytest.raises(MissingEvidenceError, match="no tensor cores for fp8"):
        seconds(text.replace(")", ",dtype=fp8)"), A100)


def test_constants_before_a_fit_know_no_library() -> None:
    prior, fitted = Constants.prior(), Constants.read()
    assert prior.vllm == prior.sglang == OverTypical(*[1.0] * 10)
    assert prior.of("vllm") == prior
    assert prior.of("trtllm").foreign_share < 0.01
    assert all(getattr(prior, name) != getattr(fitted, name) for name in FITTED)
    assert prior.sharpness == fitted.sharpness


@pytest.mark.parametrize("total", [(3, 2, 8, 4), (5, 3, 16, 4), (1000, 8, 160, 8), (7, 1, 9, 2), (64, 8, 128, 128)])
def test_balanced_routing_is_as_counted(total: tuple[int, int, int, int]) -> None:
    """Rows that are left when all experts have as many go to experts at even distances."""
    tokens, topk, experts, gpus = total
    each, left = divmod(tokens * topk, experts)
    counts = np.full(experts, each)
    counts[np.arange(left) * experts // max(left, 1)] += 1
    own = experts // gpus
    shares = counts[: own * gpus].reshape(gpus, own)
    mine = shares[shares.sum(axis=1).argmax()]
    found = routed(tokens, topk, experts, gpus)
    assert (found.rows, found.active, found.largest) == (mine.sum(), (mine > 0).sum(), mine.max())
    assert found.tiles[0].tolist() == [sum(-(-count // rows) for count in mine.tolist()) for rows in TILE_ROWS]


def test_a_law_draws_as_its_formula_says() -> None:
    """Two tokens of one expert each over one expert: both; over two experts: from one to both, as drawn."""
    assert routed(2, 1, 1, 1, 1.2).rows == 2
    uniform = np.random.default_rng(0).random((5, 8))
    weight = (1 + uniform * ((0.8 * 4096) ** -0.2 - 1)) ** -5
    share = weight / weight.sum(axis=1, keepdims=True)
    found = routed(4096, 1, 8, 1, 1.2)
    assert found.largest == pytest.approx((share.max(axis=1) * 4096).mean(), abs=2)
    assert found.rows == 4096


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(1, 2**20), st.sampled_from((1, 2, 8)), st.sampled_from((8, 60, 384)), st.sampled_from((1, 4, 7)),
    st.floats(0, 2),
)  # fmt: skip
def test_busiest_gpu_has_its_share_at_least(tokens: int, topk: int, experts: int, gpus: int, law: float) -> None:
    found = routed(tokens, topk, experts, gpus, law)
    rows, active, largest = float(found.rows[0]), float(found.active[0]), float(found.largest[0])
    assert 0 < active <= min(experts // gpus, rows)
    assert largest <= min(tokens, rows)
    assert (np.diff(found.tiles[0]) <= 0).all()
    for tiles, tile_rows in zip(found.tiles[0].tolist(), TILE_ROWS, strict=True):
        assert max(active, rows / tile_rows) - 1e-6 <= tiles <= active + rows / tile_rows
    assert rows <= topk * tokens
    if topk == 1 and experts % gpus == 0:  # more rows than tokens are lost, or stay with GPUs that have one expert more
        assert rows >= tokens / gpus * (1 - 1e-6)


def test_a_steeper_law_makes_one_gpu_busier() -> None:
    rows = [float(routed(4096, 8, 128, 16, law).rows[0]) for law in (0, 1.01, 1.2)]
    assert rows == sorted(rows)
    assert rows[0] == 2048


def test_the_law_has_no_gap_at_one() -> None:
    below, at, above = (float(routed(4096, 8, 128, 16, law).rows[0]) for law in (0.99, 1.0, 1.01))
    assert below < at < above < 1.05 * below


def test_more_experts_than_are_drawn_stand_for_several() -> None:
    some, many = routed(2**20, 8, 4096, 64, 1.2), routed(2**20, 8, 2**16, 64, 1.2)
    assert routed(2**20, 8, 2**16, 1, 1.2).rows == pytest.approx(2**23)
    assert many.rows == pytest.approx(some.rows, rel=0.02)
    assert some.active < many.active < 16 * some.active


def test_routing_does_not_depend_on_its_neighbours() -> None:
    draw = np.random.default_rng(1)
    columns = [draw.choice(some, 300).astype(float) for some in
               ((1, 64, 5000), (1, 8), (8, 128, 4096), (1, 4), (0, 1.01, 1.2))]  # fmt: skip
    whole = Routing(*columns).busiest()
    for place in (0, 17, 299):
        alone = routed(*(float(column[place]) for column in columns))
        assert alone.rows[0] == whole.rows[place]
        assert alone.tiles[0].tolist() == whole.tiles[place].tolist()


def test_large_tables_are_routed_fast() -> None:
    """About 15 us of a core each; the limit leaves room for slow machines."""
    tokens, experts = np.meshgrid(np.arange(1.0, 501.0), [8.0, 64.0, 128.0, 256.0])
    sizes = (tokens.ravel(), np.full(2000, 8.0), experts.ravel(), np.full(2000, 8.0), np.full(2000, 1.2))
    start = time.process_time()
    Routing(*sizes).busiest()
    assert time.process_time() - start < 0.4
