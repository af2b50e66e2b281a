"""Parts of the GPU: green contexts, whose launches run on some of the SMs alone.

Sizes are what a split really gives, never what a table says. NVIDIA's guideline (CUDA driver API 12.9, section Green
Contexts) is: at least 1 SM on compute capability 6.x; 2 on 7.x, in steps of 2; 4 on 8.x, in steps of 2; 8 on 9.0 and
newer, in steps of 8. CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING lowers both, at the cost of large clusters.
"""

import itertools
from typing import Any

from kerncast.bench.cuda.driver import Driver
from kerncast.errors import DeviceLostError, InputError, Refusal, UnsupportedError

#: CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, whose enumeration has another name in each version of the bindings.
_IGNORE_COSCHEDULING = 1
#: CU_GREEN_CTX_DEFAULT_STREAM, which is required, and CU_STREAM_NON_BLOCKING.
_DEFAULT_STREAM = _NON_BLOCKING = 1


class Partition:
    """A green context of some SMs."""

    def __init__(self, driver: Driver, device: int, resource: Any) -> None:
        self._driver = driver
        description = driver.call("cuDevResourceGenerateDesc", [resource], 1)
        self._green = driver.call("cuGreenCtxCreate", description, device, _DEFAULT_STREAM)
        self.sm_count = int(driver.call("cuGreenCtxGetDevResource", self._green, _sm_type(driver)).sm.smCount)
        self.context = driver.call("cuCtxFromGreenCtx", self._green)
        # Made with the context current: an event and the stream that records it must be of one context.
        self.stream = driver.call("cuGreenCtxStreamCreate", self._green, _NON_BLOCKING, 0)

    def close(self) -> None:
        """Give the stream and the green context back, in this order: a context does not take its streams along."""
        self._driver.call("cuStreamDestroy", self.stream)
        self._driver.call("cuGreenCtxDestroy", self._green)


class Partitions:
    """What the SMs of a GPU can be split into."""

    def __init__(self, driver: Driver, device: int) -> None:
        self._driver = driver
        self._device = device
        self._splits: dict[int, int] | None = None
        """number of SMs: flags of the split that gives it"""

    def sizes(self) -> tuple[int, ...]:
        """Return the numbers of SMs that a split gives exactly, ascending."""
        if self._splits is None:
            self._splits = self._probe()
        return tuple(sorted(self._splits))

    def create(self, sm_count: int) -> Partition:
        """Make a partition of so many SMs."""
        if sm_count not in self.sizes() or self._splits is None:
            raise InputError(
                f"launches cannot be confined to {sm_count} SMs",
                cure=_choice(self.sizes()),
            )
        part = self._split(self._whole(), sm_count, self._splits[sm_count])
        partition = Partition(self._driver, self._device, part)
        if partition.sm_count != sm_count:
            partition.close()
            raise UnsupportedError(f"asked for {sm_count} SMs, the driver gave {partition.sm_count}")
        return partition

    def _probe(self) -> dict[int, int]:
        """Try every size; the first also as a context, which some drivers and modes refuse although they split."""
        try:
            whole = self._whole()
            found = {n: flags for n in range(1, int(whole.sm.smCount) + 1) if (flags := self._flags_for(whole, n)) >= 0}
            if found:
                least = min(found)
                Partition(self._driver, self._device, self._split(whole, least, found[least])).close()
        except DeviceLostError:
            raise
        except (Refusal, InputError):
            return {}
        return found

    def _flags_for(self, whole: Any, sm_count: int) -> int:
        """Return the flags with which a split gives exactly so many SMs, or -1."""
        # The flag first, so that all sizes of a sweep are placed by the same rule.
        for flags in (_IGNORE_COSCHEDULING, 0):
            try:
                part = self._split(whole, sm_count, flags)
            except (Refusal, InputError):
                if self._driver.lost:
                    raise
                continue
            if part is not None and int(part.sm.smCount) == sm_count:
                return flags
        return -1

    def _whole(self) -> Any:
        return self._driver.call("cuDeviceGetDevResource", self._device, _sm_type(self._driver))

    def _split(self, whole: Any, sm_count: int, flags: int) -> Any:
        """Split off one group of at least so many SMs; None where there is none."""
        groups, count, _rest = self._driver.call("cuDevSmResourceSplitByCount", 1, whole, flags, sm_count)
        return groups[0] if int(count) else None


def _choice(sizes: tuple[int, ...]) -> str:
    steps = sorted({b - a for a, b in itertools.pairwise(sizes)})
    spread = f", in steps of {' and '.join(map(str, steps))}" if steps else ""
    return f"Choose {sizes[0]} to {sizes[-1]}{spread}." if sizes else "This GPU or its driver knows no partitions."


def _sm_type(driver: Driver) -> Any:
    try:
        return driver.api.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    except AttributeError:
        raise UnsupportedError("these cuda-bindings know no partitions", cure="Update cuda-bindings.") from None
