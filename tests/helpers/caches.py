"""New caches for tests that must find nothing remembered, but need not wait for numba."""

from pathlib import Path

from kerncast.compile.cache.store import store_in
from kerncast.models.sm.simulate import hand_on_machine_code, is_prepared, prepare


def new_cache(folder: Path) -> Path:
    """Put the simulator's machine code, compiled where it has to be, into a cache in this folder."""
    if not is_prepared():
        prepare()
    hand_on_machine_code(store_in(folder))
    return folder
