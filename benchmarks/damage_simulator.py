"""Damage the kept machine code of the simulator in many ways, and look at what comes of it. Run by hand, on POSIX.

    python benchmarks/damage_simulator.py [--damages 1000] [--forecasts 3] [--seed 0]

Each damage is loaded in a fork of its own, which simulates a case whose result is known where the loader takes what it
was given. After some of them a whole forecast is made, too, which compiles the simulator anew, and is compared with
that before the damage. Exit status 1: the interpreter ended, something damaged was loaded, or a number was wrong.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from kerncast.compile.cache.store import store_in
from kerncast.models.sm.simulate import (
    hand_on_machine_code,
    is_prepared,
    prepare,
    simulator,
    wrong_answer,
)

ROOT = Path(__file__).parents[1]
HISTOGRAM = next((ROOT / "src" / "kerncast" / "kernels").rglob("histogram.toml"))
_SECTOR = 512
#: Exit statuses of a fork.
REFUSED, RIGHT, WRONG = 10, 11, 12


def flipped(content: bytes, random: Random) -> bytes:
    """Flip one bit."""
    at = random.randrange(8 * len(content))
    return content[: at // 8] + bytes([content[at // 8] ^ 1 << at % 8]) + content[at // 8 + 1 :]


def scattered(content: bytes, random: Random) -> bytes:
    """Flip one bit in each of a few places."""
    for _ in range(random.randint(2, 20)):
        content = flipped(content, random)
    return content


def cut(content: bytes, random: Random) -> bytes:
    """Leave the end out."""
    return content[: random.randrange(len(content))]


def zeroed(content: bytes, random: Random) -> bytes:
    """Lose a sector, as after a failure of power."""
    at = random.randrange(len(content) // _SECTOR) * _SECTOR
    return content[:at] + bytes(len(content[at : at + _SECTOR])) + content[at + _SECTOR :]


def swapped(content: bytes, random: Random) -> bytes:
    """Take two sectors for one another."""
    first, second = sorted(random.sample(range(len(content) // _SECTOR), 2))
    a, b = (slice(each * _SECTOR, (each + 1) * _SECTOR) for each in (first, second))
    return content[: a.start] + content[b] + content[a.stop : b.start] + content[a] + content[b.stop :]


def lengthened(content: bytes, random: Random) -> bytes:
    """Put something behind the end."""
    return content + random.randbytes(random.randint(1, 100))


WAYS: tuple[Callable[[bytes, Random], bytes], ...] = (
    flipped, flipped, flipped, flipped, flipped, scattered, cut, cut, zeroed, swapped, lengthened,
)  # fmt: skip


def loaded() -> int:
    """Return what a fork finds that loads what is kept: refused, or the answer to the known case."""
    pid = os.fork()
    if pid == 0:
        try:
            if not is_sound():
                os._exit(REFUSED)
            os._exit(RIGHT if wrong_answer() is None else WRONG)
        except BaseException:  # noqa: BLE001  a fork must not go on as its parent
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def is_sound() -> bool:
    """Load what is kept, and tell whether it was taken; nothing is compiled, which would take ten seconds."""
    loop, arguments = simulator._loop(), simulator._any_arguments()  # noqa: SLF001
    signature = tuple(map(loop.typeof_pyval, arguments))
    result = loop._cache.load_overload(signature, loop.targetctx)  # noqa: SLF001
    if result is None:
        return False
    loop._cache.load_overload = lambda *_: result  # noqa: SLF001
    return True


def forecast() -> str:
    """Return the forecast of a launch with atomics in a process of its own, with what it says on stderr."""
    command = [sys.executable, "-m", "kerncast", "predict", str(HISTOGRAM), "--gpu", "t4", "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)  # noqa: S603  ours
    return f"{done.returncode}\n{done.stdout}{done.stderr}"


def main() -> int:
    """Damage, load, count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--damages", type=int, default=1000)
    parser.add_argument("--forecasts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if not is_prepared():
        prepare()
    random, found, begun = Random(asked.seed), Counter[str](), time.monotonic()  # noqa: S311  reproducible
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    simulator._loop().targetctx.refresh()  # noqa: SLF001  all that a fork needs, but for what is kept
    with tempfile.TemporaryDirectory() as folder:
        hand_on_machine_code(store_in(Path(folder)))
        os.environ["KERNCAST_CACHE"] = folder
        (entry,) = Path(folder).glob("compiled/?/*.entry")
        whole = entry.read_bytes()
        assert loaded() == RIGHT, "what is whole is loaded"
        for _ in range(asked.damages):
            way = random.choice(WAYS)
            found[f"{way.__name__} {told(damaged(entry, way(whole, random)))}"] += 1
        found["forecasts that changed"] += changed_forecasts(entry, whole, asked.forecasts, random)
    for name, count in sorted(found.items()):
        print(f"{count:6} {name}")
    print(f"{asked.damages} damages of {len(whole)} bytes in {time.monotonic() - begun:.0f} s")
    is_bad = any(count and not name.endswith("refused") for name, count in found.items())
    print("FAILED" if is_bad else "Nothing that was damaged was loaded: no crash, no wrong number.")
    return int(is_bad)


def damaged(entry: Path, content: bytes) -> int:
    """Put something in the place of the entry, and return what loading it does."""
    entry.parent.mkdir(mode=0o700, exist_ok=True)
    entry.write_bytes(content)
    entry.chmod(0o600)
    return loaded()


def told(status: int) -> str:
    """Name what loading did."""
    return {REFUSED: "refused", RIGHT: "loaded, and right", WRONG: "loaded, and WRONG"}.get(status, f"ENDED {status}")


def changed_forecasts(entry: Path, whole: bytes, count: int, random: Random) -> int:
    """Return how many whole forecasts differ whose simulator was damaged before."""
    found = []
    for number in range(count + 1):
        store_in(entry.parents[2]).clear()
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        entry.write_bytes(random.choice(WAYS)(whole, random) if number else whole)
        found.append(forecast())
    return sum(each != found[0] for each in found)


if __name__ == "__main__":
    sys.exit(main())
