"""Calls of libraries with operands by chance: each is done or refused, soon, and none ends the server."""

import random
import struct
import time
from collections.abc import Sequence

import numpy as np
import pytest

from kerncast.device.libraries import _FUNCTIONS, call_library
from kerncast.device.libraries.operands import Arguments
from kerncast.errors import IllegalAddress, MachineLimitError, UnsupportedError
from tests.helpers.library_calls import Device
from tests.helpers.thorough import THOROUGH

SIZES = [0, 1, 1, 2, 3, 4, 7, 8, 16, 31, 64, 100, 1000, -1, -2, 2**31 - 1, 2**40, -(2**63)]
CALLS = 100_000 if THOROUGH else 3000
SECONDS = 20.0


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("seed", range(2))
def test_any_operands_are_taken_or_refused(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, device = random.Random(seed), Device(2**22)  # noqa: S311  it draws cases
    places = [device.put(np.arange(65536, dtype=np.float64) / 7), device.put(np.ones(65536))]
    far = [places[0] + 8, places[0] + 65535 * 8, 0, 12345]

    def take(call: Arguments, kinds: Sequence[int]) -> tuple[int, int, bytes]:
        """Give what a routine asks for: a size, an address or a number of 1.5."""
        kind = chance.choice(list(kinds))
        if kind == 1:
            return kind, 8, struct.pack("<qq", chance.choice([*SIZES, chance.randrange(50)]), 0)
        if kind == 2:
            return kind, 8, struct.pack("<QQ", chance.choice(places if chance.random() < 0.7 else far), 0)
        return kind, call.form.nbytes, struct.pack("<dd", 1.5, 2.0)

    monkeypatch.setattr(Arguments, "_take", take)
    monkeypatch.setattr(Arguments, "end", lambda _: None)
    outcomes = set[type]()
    for _ in range(CALLS):
        name = chance.choice(sorted(_FUNCTIONS))
        begin = time.monotonic()
        try:
            outcomes.add(type(call_library(name, b"", device.memory)))
        except (IllegalAddress, MachineLimitError, UnsupportedError) as error:
            outcomes.add(type(error))
        assert time.monotonic() - begin < SECONDS, name
    assert len(outcomes) == 4
