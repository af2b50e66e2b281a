"""Occupancy equals NVIDIA's cuda_occupancy.h, compiled by NVRTC and executed beside it, on each architecture."""

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kerncast.compile import compile_source
from kerncast.execute import WholeGrid, execute
from kerncast.gpu import DATA, Architecture, CarveoutWish, load_architecture, preferred_bytes
from kerncast.occupancy import BlockRequest, Limiter, occupancy, why_not
from kerncast.occupancy.advice import best_block_size
from tests.helpers.execute_helpers import launch
from tests.helpers.places import ROOT

SOURCE = Path(__file__).with_name("occupancy_header.cu")
ASKED, ANSWERED, RANDOM, BLOCK = 20, 10, 3000, 128
KIB, NO_LIMIT, DEFAULT = 1024, 2**31 - 1, -1
SUGGESTED = 150  # configurations of each architecture whose best block size is asked for: 32 answers each

#: Threads, registers, registers per block, KiB of shared memory, KiB of a block, KiB reserved: per SM, as the
#: programming guide and device queries have them, so that the header does not get them from the files under test.
DEVICES = {
    "3.0": (2048, 65536, 65536, 48, 48, 0), "3.2": (2048, 65536, 32768, 48, 48, 0),
    "3.5": (2048, 65536, 65536, 48, 48, 0), "3.7": (2048, 131072, 65536, 112, 48, 0),
    "5.0": (2048, 65536, 65536, 64, 48, 0), "5.2": (2048, 65536, 65536, 96, 48, 0),
    "5.3": (2048, 65536, 32768, 64, 48, 0), "6.0": (2048, 65536, 65536, 64, 48, 0),
    "6.1": (2048, 65536, 65536, 96, 48, 0), "6.2": (2048, 65536, 32768, 64, 48, 0),
    "7.0": (2048, 65536, 65536, 96, 96, 0), "7.2": (2048, 65536, 65536, 96, 96, 0),
    "7.5": (1024, 65536, 65536, 64, 64, 0), "8.0": (2048, 65536, 65536, 164, 163, 1),
    "8.6": (1536, 65536, 65536, 100, 99, 1), "8.7": (1536, 65536, 65536, 164, 163, 1),
    "8.9": (1536, 65536, 65536, 100, 99, 1), "9.0": (2048, 65536, 65536, 228, 227, 1),
    "10.0": (2048, 65536, 65536, 228, 227, 1), "10.3": (2048, 65536, 65536, 228, 227, 1),
    "11.0": (1536, 65536, 65536, 228, 227, 1), "12.0": (1536, 65536, 65536, 100, 99, 1),
    "12.1": (1536, 65536, 65536, 100, 99, 1),
}  # fmt: skip
#: The header of CUDA 12.9 knows the chip of 11.0 by its earlier number.
KNOWN_AS = {"11.0": (10, 1)}
LIMITERS = (Limiter.WARPS, Limiter.REGISTERS, Limiter.SHARED_MEMORY, Limiter.BLOCKS, Limiter.BARRIERS)
CACHE_CONFIGS = (None, "shared", "l1", "equal")


@dataclass(frozen=True, slots=True)
class Question:
    """One configuration on one device, and what is wished for."""

    request: BlockRequest
    carveout: int = DEFAULT
    cache_config: int = 0
    most_threads: int = 1024
    with_suggestion: bool = False

    @property
    def wish(self) -> CarveoutWish | None:
        if self.carveout != DEFAULT:
            return CarveoutWish(percent=self.carveout)
        config = CACHE_CONFIGS[self.cache_config]
        return None if config is None else CarveoutWish(cache_config=config)


def architecture_of(capability: str) -> Architecture:
    return load_architecture("sm_" + capability.replace(".", ""))


def most_registers(capability: str) -> int:
    return 63 if capability == "3.0" else 255


def drawn(capability: str, generator: np.random.Generator) -> list[Question]:
    """Draw configurations of the size that compilers give, and some of any size."""
    optin = DEVICES[capability][4] * KIB
    numbers = iter(generator.integers(2**31, size=20 * RANDOM).tolist())

    def below(end: int) -> int:
        return int(next(numbers)) % end

    questions = []
    for number in range(RANDOM):
        threads = (1 + below(1100), 32 << below(6), 32 * (1 + below(32)), 32 * (1 + below(32)))[below(4)]
        registers = below(min(97 if below(3) else 256, most_registers(capability) + 1))
        static, dynamic = (
            (0, 0), (below(4096), 0), (below(49153), 0), (0, below(optin + 2048)), (below(16384), below(optin // 2)),
        )[below(5)]  # fmt: skip
        barriers = 1 if below(4) else below(17)
        carveout, config = ((DEFAULT, 0), (below(101), 0), (DEFAULT, below(4)))[below(3)]
        most_threads = 1024 if below(3) else 1 + below(1024)
        request = BlockRequest(threads, registers, static, dynamic, barriers)
        questions.append(Question(request, carveout, config, most_threads, number < SUGGESTED))
    return questions


def edges(capability: str) -> list[Question]:
    """Return what lies at, just below and just above each granularity and limit."""
    threads_per_sm, registers_per_sm, _, shared, optin, reserved = (
        value * (KIB if place > 2 else 1) for place, value in enumerate(DEVICES[capability])
    )
    beside = (-1, 0, 1)
    by_registers = [
        BlockRequest(threads, min(max(0, around + off), most_registers(capability)))
        for threads in (1, 31, 32, 33, 96, 128, 160, 255, 256, 257, 384, 512, 640, 992, 1023, 1024, 1025)
        for around in (*(registers_per_sm // warps // 32 for warps in (16, 20, 24, 28, 32, 40, 48, 64)), 8, 128, 255)
        for off in beside
    ]
    sizes = {shared, optin, 48 * KIB, *(shared // blocks - reserved for blocks in (*range(2, 18), 24, 32))}
    carveouts = architecture_of(capability).shared_carveouts_bytes or ()
    sizes |= {size // blocks - reserved for size in carveouts for blocks in (1, 2, 3, 5, 8)}
    totals = sorted({size // unit * unit + off for size in sizes for unit in (1, 128, 256) for off in beside})
    by_shared = [
        BlockRequest(64, 16, part, total - part)
        for total in totals
        for part in (0, min(1000, max(0, total)))
        if 0 <= part <= total
    ]
    by_threads = [BlockRequest(threads, 16) for threads in range(1, threads_per_sm // 2, 31)]
    questions = [Question(request) for request in (*by_registers, *by_shared, *by_threads)]
    wishes = [(percent, 0) for percent in (0, 1, 8, 32, 33, 50, 66, 67, 99, 100)] + [(DEFAULT, c) for c in (1, 2, 3)]
    return questions + [
        Question(request, *wish) for request, wish in product(by_shared[:: max(1, len(by_shared) // 60)], wishes)
    ]


@cache
def questions_of(capability: str) -> tuple[Question, ...]:
    generator = np.random.default_rng([20240607, int(capability.replace(".", ""))])
    return (*drawn(capability, generator), *edges(capability))


def asked(capability: str, questions: tuple[Question, ...]) -> npt.NDArray[np.int32]:
    major, minor = KNOWN_AS.get(capability, map(int, capability.split(".")))
    threads, registers, registers_of_block, *shared_kib = DEVICES[capability]
    device = (major, minor, threads, registers, registers_of_block, *(kib * KIB for kib in shared_kib))
    rows = [
        (
            *device, q.request.threads, q.request.registers_per_thread, q.request.static_shared_bytes,
            q.request.dynamic_shared_bytes, q.request.barriers, q.carveout, q.cache_config, q.with_suggestion,
            q.most_threads, 0, 0, 0,
        )
        for q in questions
    ]  # fmt: skip
    return np.array(rows, np.int32)


def executed(table: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
    """Return the header's answers to a table of questions."""
    kernel = compile_source(SOURCE, architectures=["sm_80"], kernel="answer").kernels[0]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "asked.npy"
        np.save(path, table)
        where = launch(
            -(-len(table) // BLOCK), BLOCK, asked=f"i32[{len(table)}, {ASKED}] file({path})",
            answered=f"i32[{len(table)}, {ANSWERED}] zeros", count=len(table),
        )  # fmt: skip
        return execute(kernel, where, WholeGrid())[0].memory["answered"]


@cache
def answers() -> dict[str, npt.NDArray[Any]]:
    tables = {capability: asked(capability, questions_of(capability)) for capability in DEVICES}
    found = executed(np.concatenate(list(tables.values())))
    ends = np.cumsum([len(table) for table in tables.values()])[:-1]
    return dict(zip(tables, np.split(found, ends), strict=True))


def test_every_architecture_is_compared() -> None:
    files = {path.stem for path in (DATA / "architectures").glob("*.toml")}
    assert {architecture_of(capability).id for capability in DEVICES} == files


def test_the_page_on_occupancy_says_how_many_were_compared() -> None:
    text = (ROOT / "docs" / "occupancy.md").read_text(encoding="utf-8")
    numbers = [len(questions_of(capability)) for capability in DEVICES]
    assert f"{sum(numbers):,} configurations on {len(DEVICES)} compute capabilities" in text
    assert min(numbers) >= 4700
    assert "4,700 on each" in text


@pytest.mark.parametrize("capability", DEVICES)
def test_equals_cuda_occupancy_h(capability: str) -> None:
    a, questions = architecture_of(capability), questions_of(capability)
    assert len(questions) >= 3500
    fitting, rows = 0, answers()[capability].tolist()
    for question, (status, blocks, *limits, factors, _, _) in zip(questions, rows, strict=True):
        assert status == 0, question
        preferred = None if question.wish is None else preferred_bytes(question.wish, a)
        found = occupancy(question.request, a, preferred)
        assert found.blocks_per_sm == blocks, question
        ours = [found.limit(limiter) for limiter in LIMITERS]
        assert [NO_LIMIT if limit is None else limit for limit in ours] == limits, question
        if limits[-1] >= blocks == min(limits[:-1]):
            # The header names all factors; those named before barriers came in stay named where barriers are fewer.
            assert factors == sum(1 << bit for bit, limit in enumerate(limits) if limit == blocks), question
        assert (why_not(question.request, a) is None) == (blocks > 0), question
        fitting += blocks > 0
    assert fitting >= 2000


@pytest.mark.parametrize("capability", DEVICES)
def test_suggests_the_block_size_that_cuda_occupancy_h_suggests(capability: str) -> None:
    a, suggested = architecture_of(capability), 0
    for question, (*_, threads, blocks) in zip(questions_of(capability), answers()[capability].tolist(), strict=True):
        if not question.with_suggestion:
            continue
        preferred = None if question.wish is None else preferred_bytes(question.wish, a)
        found = best_block_size(question.request, a, preferred, question.most_threads)
        assert (threads, blocks) == ((found.threads, found.blocks_per_sm) if found else (0, 0)), question
        suggested += found is not None
    assert suggested >= SUGGESTED // 2


def test_where_the_header_lets_too_many_registers_pass() -> None:
    """The compiler stops at 63 registers on 3.0 and at 255 on all others; the header at 255, and at 256 from 7.0 on."""
    cases = (("3.0", 64), ("7.0", 256), ("9.0", 256))
    questions = [Question(BlockRequest(64, registers)) for _, registers in cases]
    tables = [asked(capability, (question,)) for (capability, _), question in zip(cases, questions, strict=True)]
    assert (executed(np.concatenate(tables))[:, 1] > 0).all()
    for (capability, registers), question in zip(cases, questions, strict=True):
        assert occupancy(question.request, architecture_of(capability)).blocks_per_sm == 0
        fewer = replace(question.request, registers_per_thread=registers - 1)
        assert occupancy(fewer, architecture_of(capability)).blocks_per_sm > 0
