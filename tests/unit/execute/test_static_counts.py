"""Counts without execution: equal to closed forms and to what execution counts, and refused where data decide."""

import pytest

from kerncast.errors import NotExecutedError
from kerncast.execute import Budget, profile_of, run_launch
from kerncast.execute.static import NotCountedError, count_by_text
from kerncast.launch import Launch
from kerncast.profiles import Count, KernelProfile, Origin
from kerncast.profiles.counts import DRAM_BYTES_ONCE, FP32_FLOPS, GLOBAL_BYTES_TOUCHED, access_name
from tests.helpers.execute_helpers import launch, ptx_kernel

#: Each thread below %n does 10 turns of one fused multiply-add, then adds to the memory of several GPUs.
TEXT = """
.visible .entry k(.param .u64 x, .param .u32 n) {
.reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .f32 %f<3>; .reg .pred %p<3>;
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;
ld.param.u32 %r4, [n]; setp.ge.u32 %p0, %r3, %r4; @%p0 bra end;
ld.param.u64 %rd0, [x]; cvta.to.global.u64 %rd0, %rd0; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd2, %rd0, %rd1;
ld.global.f32 %f0, [%rd2]; mov.u32 %r5, 0;
loop: fma.rn.f32 %f0, %f0, %f0, %f0; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, TURNS; @%p1 bra loop;
LAST
end: ret; }
"""
STORE = "st.global.f32 [%rd2], %f0;"
NOT_EXECUTED = "multimem.red.relaxed.sys.global.add.f32 [%rd2], %f0;"
THREADS, TURNS = 1000, 10
REFUSAL = NotExecutedError("taken as not executed", where="k.cu:1")


def counted(turns: str, last: str, given: Launch | None = None) -> KernelProfile:
    text = TEXT.replace("TURNS", turns).replace("LAST", last)
    given = given or launch(8, 128, x="f32[1024] ones", n=THREADS)
    return count_by_text(ptx_kernel(text), given, REFUSAL, Budget())


def test_a_request_for_a_cluster_ends_a_loop() -> None:
    """No request is granted, so that what takes work over runs once, though the answer comes out of memory."""
    query = "clusterlaunchcontrol.query_cancel"
    text = TEXT.replace(".pred %p<3>;", ".pred %p<3>; .reg .b128 %h; .shared .align 16 .b8 answer[16];")
    text = text.replace("ld.global.f32", "again: ld.global.f32").replace("TURNS", str(TURNS))
    last = f"ld.shared.b128 %h, [answer]; {query}.is_canceled.pred.b128 %p2, %h; {NOT_EXECUTED}"
    last += f" {query}.get_first_ctaid::x.b32.b128 %r0, %h; @%p2 bra again;"
    given = launch(8, 128, x="f32[1024] ones", n=THREADS)
    found = count_by_text(ptx_kernel(text.replace("LAST", last)), given, REFUSAL, Budget())
    assert found.counts[FP32_FLOPS] == Count.exact(2 * TURNS * THREADS)


def test_loops_that_constants_bound_and_threads_outside() -> None:
    found = counted(str(TURNS), NOT_EXECUTED)
    assert found.origin is Origin.COUNTED
    assert found.counts[FP32_FLOPS] == Count.exact(2 * TURNS * THREADS)
    assert found.counts[access_name("global", "ld", "threads")].value == THREADS
    assert found.counts[access_name("global", "ld", "sectors")].value == THREADS * 4 / 32
    assert found.counts[GLOBAL_BYTES_TOUCHED].value == THREADS * 4


def test_what_can_be_executed_has_the_same_counts() -> None:
    text = TEXT.replace("TURNS", "%r4").replace("LAST", STORE)
    given = launch(8, 128, x="f32[1024] ones", n=THREADS)
    run = run_launch(ptx_kernel(text), given)
    executed = profile_of(run.trace, run.sampler, ptx_kernel(text), given)
    found = counted("%r4", STORE, given)
    assert dict(found.counts) == dict(executed.counts)
    assert found.mix is not None
    assert executed.mix is not None
    assert found.mix.warp_instructions == executed.mix.warp_instructions


@pytest.mark.parametrize(("place", "per_warp"), [("%rd0", 1), ("%rd3", 2)])
def test_a_bulk_store_of_a_warp_is_one_by_text_too(place: str, per_warp: int) -> None:
    """Of the 32 warps of 128 x 8 threads each stores once, or once for its even and once for its odd lanes."""
    text = TEXT.replace("TURNS", "%r4").replace(".pred %p<3>;", ".pred %p<3>; .shared .align 16 .b8 row[512];")
    store = f"cp.async.bulk.global.shared::cta.bulk_group [{place}], [row], 512; cp.async.bulk.commit_group;"
    text = text.replace("LAST", f"and.b32 %r6, %r3, 1; mul.wide.u32 %rd3, %r6, 512; add.u64 %rd3, %rd0, %rd3; {store}")
    given = launch(8, 128, x="f32[1024] ones", n=1024)
    run = run_launch(ptx_kernel(text), given)
    executed = profile_of(run.trace, run.sampler, ptx_kernel(text), given)
    found = count_by_text(ptx_kernel(text), given, REFUSAL, Budget())
    for one in (executed, found):
        assert one.counts[access_name("global", "st", "sectors")].value == 32 * per_warp * 512 / 32


def test_a_way_that_data_choose_is_between_never_and_always() -> None:
    last = "setp.gt.f32 %p2, %f0, 0f00000000; @%p2 bra more; bra join; more: add.f32 %f1, %f0, %f0; join: " + STORE
    found = counted(str(TURNS), last)
    always = 2 * TURNS * THREADS
    assert found.counts[FP32_FLOPS] == Count(always + THREADS / 2, always, always + THREADS)
    stores = found.counts[access_name("global", "st", "threads")]
    assert stores == Count.exact(THREADS)  # both ways have met


def test_a_loop_that_data_end_is_refused() -> None:
    last = "more: ld.global.f32 %f0, [%rd2]; setp.gt.f32 %p2, %f0, 0f00000000; @%p2 bra more; " + STORE
    with pytest.raises(NotCountedError, match="how often a loop runs depends on data"):
        counted(str(TURNS), last)


def test_what_one_way_writes_is_not_known_on_the_other() -> None:
    """The first way sets two rounds; on the second, which no thread takes after the first, it is eight."""
    last = f"""mov.u32 %r6, 8; setp.gt.f32 %p2, %f0, 0f00000000; @%p2 bra more; mov.u32 %r6, 2; bra join;
        more: mov.u32 %r5, 0; {ROUNDS} join: {STORE}"""
    with pytest.raises(NotCountedError, match="how often a loop runs depends on data"):
        counted("1", last)
    own = last.replace("more: ", "more: mov.u32 %r6, 8; ")
    assert counted("1", own).counts[FP32_FLOPS] == Count((2 + 4) * THREADS, 2 * THREADS, (2 + 8) * THREADS)


def test_a_bound_in_memory_that_the_host_wrote_is_known() -> None:
    last = f"ld.global.nc.u32 %r6, [%rd0]; mov.u32 %r5, 0; {ROUNDS} " + STORE.replace("%rd2", "%rd3")
    text = TEXT.replace("TURNS", "1").replace("LAST", last).replace(".param .u64 x,", ".param .u64 x, .param .u64 y,")
    text = text.replace("ld.param.u32 %r4", "ld.param.u64 %rd3, [y]; ld.param.u32 %r4")
    given = launch(8, 128, x="u32[1024] randint(7, 8)", y="f32[1024] zeros", n=THREADS)
    found = count_by_text(ptx_kernel(text), given, REFUSAL, Budget())
    assert found.counts[FP32_FLOPS] == Count.exact(THREADS * (2 + 7))


ROUNDS = "round: add.f32 %f0, %f0, %f0; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r6; @%p1 bra round;"


def test_no_more_is_read_than_there_is() -> None:
    """An address that a loaded value makes is unknown: it may be anywhere in its buffer, and nowhere else."""
    last = "cvt.rzi.u32.f32 %r6, %f0; mul.wide.u32 %rd1, %r6, 4; add.u64 %rd1, %rd0, %rd1; st.global.f32 [%rd1], %f0;"
    found = counted(str(TURNS), last)
    once = found.counts[DRAM_BYTES_ONCE]
    assert once.value == THREADS * 4 + min(THREADS * 4, 4096)
    assert once.low <= THREADS * 4 <= once.high
