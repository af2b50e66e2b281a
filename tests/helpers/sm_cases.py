"""Random small programs, traces and SMs: every kind of micro-op, access and limit, in few cycles."""

from random import Random

from kerncast.models.sm.micro_ops import FULL_WEIGHT, JOINED, Group, Memory, Pipe, Program
from kerncast.models.sm.multiprocessor import SM
from kerncast.traces import PASSES_SHIFT, Operation, SMTrace
from tests.helpers.sm_programs import Op, Step, program_of, sm_of, trace_of

Access = list[tuple[Operation, int, int]]

OPERATIONS = {
    Memory.LOAD: (Operation.LOAD, Operation.LOAD_READ_ONLY, Operation.LOAD_UNCACHED, Operation.LOCAL_LOAD),
    Memory.STORE: (Operation.STORE, Operation.LOCAL_STORE),
    Memory.ATOMIC: (Operation.ATOMIC,),
    Memory.REDUCTION: (Operation.REDUCTION,),
    Memory.SHARED_LOAD: (Operation.SHARED_LOAD,),
    Memory.SHARED_STORE: (Operation.SHARED_STORE,),
    Memory.SHARED_ATOMIC: (Operation.SHARED_ATOMIC,),
    Memory.COPY: (Operation.LOAD, Operation.LOAD_UNCACHED),
}
OPERATIONS |= {joined: OPERATIONS[plain] for plain, both in JOINED.items() for joined in both}
_SHARED_ATOMICS = {Memory.SHARED_ATOMIC, *JOINED[Memory.SHARED_ATOMIC]}
_GLOBAL_ATOMICS = {each for plain in (Memory.ATOMIC, Memory.REDUCTION) for each in (plain, *JOINED[plain])}
_WRITING = {Memory.NONE, Memory.LOAD, Memory.ATOMIC, *JOINED[Memory.ATOMIC], Memory.SHARED_LOAD, *_SHARED_ATOMICS}
_LOCAL = {Operation.LOCAL_LOAD, Operation.LOCAL_STORE}


def quarters(random: Random, most: int = 24) -> float:
    """Return a multiple of a quarter: sums of them are exact, whatever their order."""
    return random.randint(1, most) / 4


def random_op(random: Random, instruction: int) -> Op:
    # Barriers of some warps and mbarriers have closed forms of their own (test_events.py).
    known = [memory for memory in Memory if memory < Memory.ARRIVE]
    memory = random.choice([Memory.NONE] * 5 + [Memory.COPY, Memory.PRODUCT, Memory.AWAIT] + known)
    pipe = random.choice(list(Pipe))
    if memory != Memory.NONE:
        pipe = {Memory.BARRIER: Pipe.BRANCH, Memory.AWAIT: Pipe.BRANCH, Memory.PRODUCT: Pipe.TENSOR}.get(
            memory, Pipe.LSU
        )
        if memory == Memory.COMMIT and random.random() < 0.5:
            pipe = Pipe.BRANCH
    accesses: tuple[int, ...] = ()
    if memory in OPERATIONS:
        most = 3 if memory == Memory.SHARED_LOAD else 1
        accesses = tuple(range(instruction, instruction + random.randint(0, most)))
    registers = range(6)
    return Op(
        pipe,
        memory,
        sources=tuple(random.choices(registers, k=random.randint(0, 3))),
        destinations=tuple(random.sample(registers, random.randint(0, 2))) if memory in _WRITING else (),
        accesses=accesses,
        cycles=random.choice([0.0, 0.0, 0.75, 3.0]),
        latency=random.choice([0.0, 0.0, 6.5, 11.0]),
        weight=random.choice([FULL_WEIGHT] * 4 + [64, 100, 200]),
        phase=random.randrange(FULL_WEIGHT),
        group=0 if memory == Memory.BARRIER else random.choice(list(Group)),
        left=0 if memory == Memory.BARRIER else random.choice([0, 0, 1, 2, 5]),
    )


def random_access(random: Random, memory: Memory) -> Access:
    operation = random.choice(OPERATIONS[memory])
    few = random.randint(1, 8)
    if memory in {Memory.SHARED_LOAD, Memory.SHARED_STORE}:
        return [(operation, few, 0)]
    if memory in _SHARED_ATOMICS:
        lanes = random.choice([*range(1, 9), 32])
        return [(operation, max(few, lanes) | lanes << 8, 0)]
    lines = random.sample(range(40), 1 if operation in _LOCAL else random.randint(1, 3))
    if operation in _LOCAL:
        lines = [line % 4 for line in lines]
    passes = 0 if operation in _LOCAL else random.choice([0, 1, 3, 32]) << PASSES_SHIFT
    found = []
    for line in lines:
        mask = random.randint(1, 15)
        if operation == Operation.STORE:
            passes = random.randint(0, mask.bit_count()) << PASSES_SHIFT
        found.append((operation, line | passes, mask))
    if memory == Memory.COPY:  # now and then all of it is zeros
        found = [*found[: random.randint(0, 3)], (Operation.SHARED_STORE, few, 0)]
    if memory in _GLOBAL_ATOMICS:
        lanes = random.choice([few, 32])
        found.insert(0, (Operation.CONTENTION, lanes | random.randint(1, 8) << 8, 0))
    return found


def random_step(random: Random, blocks: list[list[Op]]) -> Step:
    """Return the execution of some basic block, in which a few accesses are predicated off."""
    block = random.randrange(len(blocks))
    wanted = [(a, op.memory) for op in blocks[block] for a in op.accesses]
    return Step(block, {a: random_access(random, m) for a, m in sorted(wanted) if random.random() < 0.9})


def random_case(random: Random) -> tuple[Program, SMTrace, int]:
    """Return a program, a trace of it, and how many blocks are resident."""
    blocks = [
        [random_op(random, 100 * number + 4 * i) for i in range(random.randint(1, 6))]
        for number in range(random.randint(1, 4))
    ]
    leader = [0]
    for number in range(1, len(blocks)):
        leader.append(leader[-1] if random.random() < 0.5 else number)
    warps = random.randint(1, 5)
    steps = random.randint(0, 6)
    rows = [
        [[random_step(random, blocks) for _ in range(random.randint(0, steps))] for _ in range(warps)]
        for _ in range(random.randint(1, 4))
    ]
    return program_of(*blocks, leader=leader), trace_of(rows), random.randint(1, 3)


def random_sm(random: Random) -> SM:
    rates = (
        "lsu_cycles", "wavefront_cycles", "shared_word_cycles", "replay_cycles", "l1_tag_cycles", "store_line_cycles",
        "atomic_cycles", "lsu_queue_cycles", "l2_queue_cycles", "dram_queue_cycles", "atomic_queue_cycles",
        "shared_atomic_cycles", "barrier_latency", "branch_latency", "hot_sector_cycles", "sector_slice_cycles",
        "reissue_cycles", "l1_pass_cycles", "l2_request_cycles", "merge_cycles", "dram_burst_cycles", "store_latency",
    )  # fmt: skip
    bandwidths = (
        "l1_bytes_per_cycle",
        "l2_path_bytes_per_cycle",
        "l2_bytes_per_cycle",
        "l2_write_bytes_per_cycle",
        "dram_bytes_per_cycle",
        "dram_write_bytes_per_cycle",
    )
    latencies = ("shared_latency", "l1_latency", "l2_latency", "dram_latency", "block_launch_cycles")
    changes: dict[str, object] = {name: quarters(random) for name in rates}
    changes |= {name: float(2 ** random.randint(2, 7)) for name in bandwidths}
    changes |= {name: float(random.randint(1, 100)) for name in latencies}
    return sm_of(
        sub_partitions=random.randint(1, 4),
        issue_width=random.randint(1, 2),
        is_oldest_first=random.random() < 0.5,
        pipe_cycles=tuple(quarters(random) for _ in Pipe),
        fma_cycles=tuple(quarters(random) if pipe in {Pipe.IMAD, Pipe.ALU} else 0.0 for pipe in Pipe),
        l1_lines=random.choice([0, 4, 16, 40]),
        l1_operations=random.getrandbits(8),
        stores_allocate=random.random() < 0.5,
        l1_is_apart=random.random() < 0.5,
        dram_read_share=random.choice([0.0, 0.25, 0.5, 1.0]),
        dram_atomic_share=random.choice([0.0, 0.25, 1.0]),
        dram_local_share=random.choice([0.0, 0.25, 0.5, 1.0]),
        dram_write_share=random.choice([0.0, 0.25, 0.5, 1.0]),
        hot_line=random.choice([-1, random.randrange(40)]),
        **changes,
    )
