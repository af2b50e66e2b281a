"""An SM simulated cycle by cycle in plain Python: every warp is asked every cycle. Slow, and independent of ours."""

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import pairwise

from kerncast.models.sm.micro_ops import Memory, Pipe, Program
from kerncast.models.sm.multiprocessor import SM
from kerncast.models.sm.results import Stall
from kerncast.traces import Operation, SMTrace

STORES, ATOMICS = {Operation.STORE, Operation.LOCAL_STORE}, {Operation.ATOMIC, Operation.REDUCTION}
LOCAL = {Operation.LOCAL_LOAD, Operation.LOCAL_STORE}
SHARED = {Operation.SHARED_LOAD, Operation.SHARED_STORE, Operation.SHARED_ATOMIC}
SHARED_OPS = {memory for memory in Memory if memory.name.startswith("SHARED")}
NO_RESULT = {Memory.BARRIER, Memory.COMMIT, Memory.AWAIT, Memory.PRODUCT}
WAYS = 16
SPREAD = 0x9E3779B1

Event = tuple[Operation, int, int, int, int, bool]


@dataclass
class Warp:
    """One resident warp; ``todo`` holds its micro-ops to come, each with the events of its accesses."""

    number: int
    slot: int
    todo: list[tuple[int, list[list[Event]]]]
    start: int
    registers: dict[int, tuple[int, Stall]] = field(default_factory=dict)
    gate: int = 0
    gate_reason: Stall = Stall.SELECTED
    waits: bool = False
    shared_done: int = 0
    drained: tuple[int, Stall] = (0, Stall.WAIT)
    since: int = 0
    last_op: int = 0
    lost_turns: int = 0
    stored: tuple[int, int] = (-1, 0)
    goes_on: bool = False
    open: dict[int, list[tuple[int, Stall]]] = field(default_factory=dict)
    ended: dict[int, list[tuple[int, Stall]]] = field(default_factory=dict)


def decoded(event: int, before: int) -> Event:
    """Return an event as operation, line, sectors, instruction, passes, and whether the one before it is a store."""
    line, sectors, passes = event & (2**32 - 1), event >> 40 & 15, event >> 32 & 255
    return Operation(event >> 45 & 15), line, sectors, event >> 49, passes, before >> 45 & 15 == Operation.STORE


class Oracle:
    """One simulation."""

    def __init__(self, program: Program, trace: SMTrace, sm: SM, resident: int) -> None:
        self.program, self.trace, self.sm = program, trace, sm
        self.finish: list[float] = []
        self.stalls = [[0] * len(Stall) for _ in program.pipe]
        self.lsu = self.l1_free = self.requests = self.l2 = self.path = self.slice = self.dram = self.atomic = 0.0
        self.read_debt = self.write_debt = 0.0
        self.local_read = self.local_write = self.merged = self.lines_asked = 0
        self.l2_read = self.l2_write = self.dram_sectors = self.l1_sectors = self.l1_hits = self.issued = 0
        self.sets = max(1, sm.l1_lines // WAYS)
        self.l1: list[OrderedDict[object, list[float]]] = [OrderedDict() for _ in range(self.sets)]
        self.pipes = [[0.0] * len(Pipe) for _ in range(sm.sub_partitions)]
        self.turn = [0] * sm.sub_partitions
        self.next_row = 0
        self.after_last = 0
        self.progress: list[int] = []
        self.warps: dict[int, Warp] = {}
        self.resident_cycles = 0
        for slot in range(min(resident, len(trace.block_ids))):
            self.launch(slot, 0)

    # ---- chains
    def launch(self, slot: int, start: int) -> None:
        row = self.next_row
        if row >= len(self.trace.block_ids):
            return
        self.next_row += 1
        for w in range(self.trace.warps):
            number = slot * self.trace.warps + w
            self.warps[number] = Warp(number, slot, self.chain(row * self.trace.warps + w), start, gate=start)
            self.warps[number].since = start

    def chain(self, serial: int) -> list[tuple[int, list[list[Event]]]]:
        chains, p = self.trace.chains, self.program
        words = [int(e) for e in self.trace.events[chains[serial] : chains[serial + 1]]]
        events = [decoded(e, before) for before, e in zip([Operation.BASIC_BLOCK << 45, *words], words, strict=False)]
        todo: list[tuple[int, list[list[Event]]]] = []
        executed: dict[int, int] = {}
        entries = [i for i, e in enumerate(events) if e[0] == Operation.BASIC_BLOCK]
        rounds: list[tuple[int, int, list[Event]]] = []
        for at, end in pairwise([*entries, len(events)]):
            block = events[at][3]
            own = events[at + 1 : end]
            if rounds and int(p.leader[block]) == rounds[-1][0] and block > rounds[-1][1]:
                own = rounds.pop()[2] + own
            rounds.append((int(p.leader[block]), block, own))
        for leader, _, found in rounds:
            k = serial + executed.get(leader, 0)
            executed[leader] = executed.get(leader, 0) + 1
            for op in range(p.starts[leader], p.starts[leader + 1]):
                if (k * int(p.weight[op]) + int(p.phase[op])) % 256 < p.weight[op]:
                    wanted = [int(a) for a in p.accesses[op] if a >= 0]
                    todo.append((op, [[e for e in found if e[3] == a] for a in wanted]))
        return todo

    # ---- who can issue
    def operands(self, warp: Warp) -> tuple[int, Stall]:
        op = warp.todo[0][0]
        p = self.program
        needs = [warp.registers.get(int(r), (0, Stall.WAIT)) for r in (*p.sources[op], *p.destinations[op]) if r >= 0]
        if p.memory[op] == Memory.BARRIER:
            needs.append((warp.shared_done, Stall.SHORT_SCOREBOARD))
        if p.memory[op] == Memory.AWAIT:
            ended = warp.ended.get(int(p.group[op]), [])
            needs += ended[: max(0, len(ended) - int(p.left[op]))]
        return max(needs, default=(0, Stall.WAIT))

    def group(self, warp: Warp) -> str:
        op, accesses = warp.todo[0]
        memory = Memory(self.program.memory[op])
        if not accesses:
            if memory.name.startswith(("ATOMIC", "REDUCTION")):
                return "atomic"
            names = {Memory.LOAD: "load", Memory.COPY: "load", Memory.STORE: "store", Memory.PRODUCT: "products"}
            return "shared" if memory in SHARED_OPS else names.get(memory, "pipe")
        first = next((a[0][0] for a in accesses if a), None)
        if first is None:
            return "nothing"
        if first in STORES:
            return "store"
        if first in ATOMICS or first == Operation.CONTENTION:
            return "atomic"
        return "shared" if first in SHARED else "load"

    def has_room(self, warp: Warp, part: int, now: int) -> bool:
        group, pipes = self.group(warp), self.pipes[part]
        pipe = Pipe(self.program.pipe[warp.todo[0][0]])
        if group in {"nothing", "products"}:
            return True
        if group == "pipe":
            free = [pipes[pipe]]
            if self.sm.fma_cycles[pipe] > 0:
                free.append(pipes[Pipe.FMA])
            if pipe == Pipe.LSU:
                free.append(self.lsu - self.sm.lsu_queue_cycles)
            return max(free) < now + 1
        room = self.sm.lsu_queue_cycles
        free = [pipes[Pipe.LSU], self.lsu - room, self.l1_free - room if group != "shared" else 0.0]
        if group in {"store", "atomic"}:
            free += [self.l2 - self.sm.l2_queue_cycles, self.dram - self.sm.dram_queue_cycles]
        if group == "atomic":
            free.append(self.atomic - self.sm.atomic_queue_cycles)
        return max(free) < now + 1

    def can_issue(self, warp: Warp, now: int) -> bool:
        return not warp.waits and warp.gate <= now and bool(warp.todo) and self.operands(warp)[0] <= now

    # ---- time
    def run(self) -> "Oracle":
        now = 0
        while len(self.finish) < len(self.trace.block_ids):
            first, parts = self.after_last, self.sm.sub_partitions
            for part in ((first + turn) % parts for turn in range(parts)):
                own = sorted(n for n in self.warps if n % self.sm.sub_partitions == part)
                for number in own:
                    if number in self.warps and self.is_over(self.warps[number], now):
                        self.end(self.warps[number], now)
                self.serve(part, now)
            now += 1
            assert now < 10**6
        return self

    def is_over(self, warp: Warp, now: int) -> bool:
        return not warp.todo and not warp.waits and max(warp.gate, warp.since, warp.drained[0]) <= now

    def serve(self, part: int, now: int) -> None:
        parts = self.sm.sub_partitions
        ready = [w for n, w in sorted(self.warps.items()) if n % parts == part and self.can_issue(w, now)]
        able = [w for w in ready if w.since <= now and self.has_room(w, part, now)]
        if not able:
            return
        first = 0 if self.sm.is_oldest_first else self.turn[part]
        chosen = min(able, key=lambda w: (w.number // parts - first) % 64)
        self.turn[part] = (chosen.number // parts + 1) % 64
        for w in ready:
            if w is not chosen and w.since <= now:
                w.lost_turns += 1
        is_first = True
        for _ in range(self.sm.issue_width):
            if not is_first and not self.second(chosen, part, now):
                break
            self.issue(chosen, part, now, is_first)
            is_first = False
            if chosen.waits:
                break
        blocked = [w for w in self.warps.values() if w.slot == chosen.slot]
        if chosen.waits and all(w.waits for w in blocked):
            self.release(chosen.slot, now)

    def second(self, warp: Warp, part: int, now: int) -> bool:
        if not warp.todo or self.program.memory[warp.todo[0][0]] != Memory.NONE:
            return False
        return self.can_issue(warp, now) and self.has_room(warp, part, now)

    def end(self, warp: Warp, now: int) -> None:
        row = self.stalls[warp.last_op] if self.stalls else []
        gate = max(warp.since, warp.gate)
        if now > warp.since:
            row[warp.gate_reason] += gate - warp.since
            row[warp.drained[1]] += now - gate
        self.resident_cycles += now - warp.start
        del self.warps[warp.number]
        left = [w for w in self.warps.values() if w.slot == warp.slot]
        if not left:
            self.finish.append(now)
            self.progress.append(self.issued)
            self.launch(warp.slot, now + max(1, math.ceil(self.sm.block_launch_cycles)))
        elif all(w.waits for w in left):
            self.release(warp.slot, now)

    def release(self, slot: int, now: int) -> None:
        for w in self.warps.values():
            if w.slot == slot:
                w.waits = False
                w.gate, w.gate_reason = now + max(1, math.ceil(self.sm.barrier_latency)), Stall.BARRIER

    # ---- effects
    def issue(self, warp: Warp, part: int, now: int, is_first: bool) -> None:
        op, accesses = warp.todo[0]
        group = self.group(warp)
        pipe, memory = Pipe(self.program.pipe[op]), Memory(self.program.memory[op])
        if is_first:
            self.account(warp, op, group, pipe, now)
        warp.todo.pop(0)
        warp.last_op = op
        self.issued += 1
        if group == "nothing":
            return
        if memory not in NO_RESULT | {Memory.NONE}:
            pipe = Pipe.LSU
        self.after_last = part + 1 if pipe == Pipe.LSU else self.after_last
        cycles = float(self.program.cycles[op]) or self.sm.pipe_cycles[pipe]
        pipes = self.pipes[part]
        pipes[pipe] = max(now, pipes[pipe]) + cycles
        if self.sm.fma_cycles[pipe] > 0:
            # What takes its own pipe longer than others do takes the FMA pipe longer, too.
            shared = self.sm.fma_cycles[pipe] * cycles / self.sm.pipe_cycles[pipe]
            pipes[Pipe.FMA] = max(now, pipes[Pipe.FMA]) + shared
        latency = float(self.program.latency[op])
        kind = Stall.WAIT
        if memory in NO_RESULT:
            warp.waits = memory == Memory.BARRIER
            self.group_goes_on(warp, op, now, pipes[pipe] + (latency or self.sm.pipe_latency[pipe]))
            return
        if memory != Memory.NONE:
            done, kind = self.memory(warp, op, accesses, now)
            self.hold(warp, op, done, kind)
        elif pipe == Pipe.BRANCH:
            latency = latency or self.sm.branch_latency
            done = now + latency
            warp.gate, warp.gate_reason = now + max(1, math.ceil(latency)), Stall.BRANCH_RESOLVING
        elif pipe == Pipe.LSU:
            start = max(now, self.lsu)
            self.lsu = start + self.sm.lsu_cycles
            done, kind = start + (latency or self.sm.pipe_latency[pipe]), Stall.SHORT_SCOREBOARD
        else:
            done = now + (latency or self.sm.pipe_latency[pipe])
            kind = Stall.SHORT_SCOREBOARD if pipe == Pipe.XU else Stall.WAIT
        for r in self.program.destinations[op]:
            if r >= 0:
                warp.registers[int(r)] = (math.ceil(done), kind)
                warp.drained = max(warp.drained, (math.ceil(done), kind))

    def group_goes_on(self, warp: Warp, op: int, now: int, done: float) -> None:
        """Put a product that is done at a time into its group, or end a group."""
        kind = int(self.program.group[op])
        if self.program.memory[op] == Memory.PRODUCT:
            self.hold(warp, op, done, Stall.WAIT)
        if self.program.memory[op] == Memory.COMMIT:
            if self.program.pipe[op] == Pipe.LSU:
                self.lsu = max(now, self.lsu) + self.sm.lsu_cycles
            warp.ended.setdefault(kind, []).append(max(warp.open.pop(kind, []), default=(0, Stall.WAIT)))

    def hold(self, warp: Warp, op: int, done: float, kind: Stall) -> None:
        """Note what barriers and groups wait for, and the end of the warp."""
        memory = Memory(self.program.memory[op])
        if memory in {Memory.COPY, Memory.PRODUCT}:
            warp.open.setdefault(int(self.program.group[op]), []).append((math.ceil(done), kind))
            warp.drained = max(warp.drained, (math.ceil(done), kind))
        elif kind == Stall.SHORT_SCOREBOARD:
            warp.shared_done = max(warp.shared_done, math.ceil(done))
        elif memory == Memory.STORE:
            warp.drained = max(warp.drained, (math.ceil(done + self.sm.store_latency), kind))

    def account(self, warp: Warp, op: int, group: str, pipe: Pipe, now: int) -> None:
        ready, kind = self.operands(warp)
        gate = max(warp.since, warp.gate)
        self.stalls[warp.last_op][warp.gate_reason] += gate - warp.since
        ready = max(ready, gate)
        row = self.stalls[op]
        row[kind] += ready - gate
        row[Stall.NOT_SELECTED] += warp.lost_turns
        reason = {"shared": Stall.MIO_THROTTLE, "pipe": Stall.MATH_PIPE_THROTTLE}.get(group, Stall.LG_THROTTLE)
        if group == "pipe" and pipe == Pipe.LSU:
            reason = Stall.MIO_THROTTLE
        row[reason] += now - ready - warp.lost_turns
        row[Stall.SELECTED] += 1
        warp.since, warp.lost_turns = now + 1, 0

    def memory(self, warp: Warp, op: int, accesses: list[list[Event]], now: int) -> tuple[float, Stall]:
        memory, latency = Memory(self.program.memory[op]), float(self.program.latency[op])
        sm, events = self.sm, [e for access in accesses for e in access]
        loads = [e for e in events if e[0] in ATOMICS | {0, 1, 2, Operation.LOCAL_LOAD}]
        stores = [e for e in events if e[0] in STORES]
        to_shared = [e for e in events if e[0] in SHARED]
        sectors = sum(e[2].bit_count() for e in loads)
        data = sectors * 32 / sm.l1_bytes_per_cycle
        passes = max((e[4] for e in loads if e[0] not in ATOMICS), default=0)
        if sm.l1_pass_cycles and passes:
            moved = min(sectors * 32, passes * 128)
            data = max(passes * sm.l1_pass_cycles, moved / sm.l1_bytes_per_cycle)
        tags = len(loads) * sm.l1_tag_cycles
        work = max(tags, data)
        work += len(stores) * sm.store_line_cycles
        shared = max((self.shared_work(op, e) for e in to_shared), default=0.0)
        if memory == Memory.COPY:
            keeps = any(sm.l1_lines > 0 and sm.l1_operations >> e[0] & 1 for e in loads)
            work = max(tags, data + shared if keeps else shared) - shared
        results = sum(d >= 0 for d in self.program.destinations[op])
        if shared > 0 and results > 1:
            shared = max(shared, results * sm.shared_word_cycles)
        is_global = work > 0 or memory == Memory.COPY or (shared == 0 and memory not in SHARED_OPS)
        cost = max(sm.lsu_cycles, work + shared)
        start = max(now, self.lsu)
        self.lsu = start + (max(sm.lsu_cycles, shared) if sm.l1_is_apart else cost)
        if sm.l1_is_apart and work > 0:
            start = max(start, self.l1_free)
            self.l1_free = start + work
        again = max((self.conflicts(op, e) for e in to_shared), default=0) * sm.reissue_cycles
        if again > 0:
            warp.gate, warp.gate_reason = math.ceil(start + again), Stall.MIO_THROTTLE
        extra = max(cost - sm.lsu_cycles, again)
        hit = start + extra + (latency or (sm.l1_latency if is_global else sm.shared_latency))
        done = hit if shared > 0 or work == 0 else start + extra
        asked = start
        for event in events:
            if event[0] == Operation.CONTENTION:
                lanes, addresses = event[1] & 255, event[1] >> 8
                if "JOINED" not in memory.name or (memory.name.endswith("BY_ALL") and lanes < 32):
                    further = max(0, min(32, lanes * addresses) - addresses)
                    self.atomic = max(start, self.atomic) + further * sm.atomic_cycles
                    done = max(done, self.atomic + sm.l2_latency)
            elif event[0] not in SHARED:
                if event[0] == Operation.STORE and asked == start:
                    warp.goes_on = (event[1], event[2]) == warp.stored and event[5]
                    warp.stored = (event[1], event[2])
                done = max(done, self.line(warp, event, asked, hit))
                asked += sm.l1_tag_cycles
        done += shared if memory == Memory.COPY else 0.0
        return done, Stall.LONG_SCOREBOARD if is_global else Stall.SHORT_SCOREBOARD

    def conflicts(self, op: int, event: Event) -> int:
        words = sum(1 for r in self.program.destinations[op] if r >= 0)
        return max(0, (event[1] & 255) - max(1, words))

    def shared_work(self, op: int, event: Event) -> float:
        words = max(1, sum(1 for r in self.program.destinations[op] if r >= 0))
        passes, lanes = event[1] & 255, event[1] >> 8 & 255
        joined = {Memory.SHARED_ATOMIC_JOINED: 32, Memory.SHARED_ATOMIC_JOINED_BY_ALL: 1}
        if 32 - lanes < joined.get(Memory(self.program.memory[op]), 0):
            passes = 1 + max(0, passes - lanes)
            lanes = 1
        work = 0.0
        for number in range(passes):
            work += self.sm.wavefront_cycles if number < words else self.sm.replay_cycles
        if event[0] == Operation.SHARED_ATOMIC:
            work = max(work, lanes * self.sm.shared_atomic_cycles)
        return work

    def line(self, warp: Warp, event: Event, asked: float, hit: float) -> float:
        operation, number, mask, _, partly, _ = event
        tag = -2 - (warp.number * self.trace.local_lines + number) if operation in LOCAL else number
        lines = self.l1[(tag * SPREAD % 2**32) * self.sets >> 32]
        in_l1 = self.sm.l1_lines > 0 and self.sm.l1_operations >> operation & 1
        count = mask.bit_count()
        if operation in STORES | ATOMICS:
            if in_l1 and operation in STORES and self.sm.stores_allocate:
                entry = self.place(lines, tag)
                entry[0], entry[1] = int(entry[0]) | mask, max(entry[1], asked)
            elif in_l1 and tag in lines:
                lines[tag][0] = int(lines[tag][0]) & ~mask
            done = asked
            if operation in ATOMICS:
                self.atomic = max(asked, self.atomic) + count * self.sm.atomic_cycles
                done = max(self.read_dram(count * self.sm.dram_atomic_share, asked), self.atomic + self.sm.l2_latency)
            if operation != Operation.STORE:
                partly = 0
            elif warp.goes_on:
                count, partly = count - partly, 0
            self.l2_write += count
            self.merged += partly
            self.local_write += count if operation in LOCAL else 0
            if operation in STORES:
                work = count * 32 / self.sm.l2_write_bytes_per_cycle + partly * self.sm.merge_cycles
                self.l2 = max(asked, self.l2) + work
                self.slice = max(asked, self.slice) + count * self.sm.sector_slice_cycles
            else:
                self.l2_read += count
            share = self.sm.dram_local_share if operation in LOCAL else self.sm.dram_write_share
            if operation in ATOMICS:
                share = self.sm.dram_atomic_share
            self.write_debt += count * share
            if self.write_debt >= 1:
                self.occupy_dram(int(self.write_debt) * 32 / self.sm.dram_write_bytes_per_cycle, asked)
                self.dram_sectors += int(self.write_debt)
                self.write_debt -= int(self.write_debt)
            return done
        self.l1_sectors += count
        hot = operation not in LOCAL and number == self.sm.hot_line
        if not in_l1:
            return self.read(operation, count, asked, hot)
        entry = self.place(lines, tag)
        held = int(entry[0]) & mask
        self.l1_hits += held.bit_count()
        done = max(hit, entry[1]) if held else hit
        missing = mask & ~held
        if missing:
            done = max(done, self.read(operation, missing.bit_count(), asked, hot))
            entry[0], entry[1] = int(entry[0]) | missing, max(entry[1], done)
        return done

    def place(self, lines: OrderedDict[object, list[float]], tag: int) -> list[float]:
        if tag not in lines:
            if len(lines) == min(WAYS, self.sm.l1_lines):
                lines.popitem(last=False)
            lines[tag] = [0, 0.0]
        lines.move_to_end(tag)
        return lines[tag]

    def read(self, operation: Operation, sectors: int, asked: float, hot: bool = False) -> float:
        self.l2_read += sectors
        self.lines_asked += 1
        self.local_read += sectors if operation in LOCAL else 0
        share = self.sm.dram_local_share if operation in LOCAL else self.sm.dram_read_share
        self.requests = asked = max(asked, self.requests) + self.sm.l2_request_cycles
        self.l2 = max(asked, self.l2) + sectors * 32 / self.sm.l2_bytes_per_cycle
        self.path = max(asked, self.path) + sectors * 32 / self.sm.l2_path_bytes_per_cycle
        each = self.sm.hot_sector_cycles if hot else self.sm.sector_slice_cycles
        self.slice = max(asked, self.slice) + sectors * each
        arrival = max(self.l2, self.path, self.slice) if hot else max(self.l2, self.path)
        return max(arrival + self.sm.l2_latency, self.read_dram(sectors * share, asked))

    def read_dram(self, sectors: float, asked: float) -> float:
        self.read_debt += sectors
        if self.read_debt < 1:
            return 0.0
        owed = int(self.read_debt)
        self.read_debt -= owed
        self.dram_sectors += owed
        self.occupy_dram(owed * 32 / self.sm.dram_bytes_per_cycle, asked)
        return max(asked, self.dram) + self.sm.dram_latency

    def occupy_dram(self, work: float, asked: float) -> None:
        begin = asked if self.dram == 0 else max(self.dram, asked - self.sm.dram_burst_cycles)
        self.dram = begin + work
