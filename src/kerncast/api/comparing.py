"""A comparison of GPUs: its order, its prices, and the GPU that each one is compared with."""

from collections.abc import Sequence
from pathlib import Path

from kerncast.child_process import Progress
from kerncast.errors import InputError, Refusal
from kerncast.forecast import Options, resolve_gpus
from kerncast.forecast.asked import GPUsNoted
from kerncast.gpu import GPU, normalise
from kerncast.launch import Launch
from kerncast.profiles import KernelProfile
from kerncast.read.prices import Price, read_prices
from kerncast.report.comparison.comparison_table import Compared
from kerncast.studies.comparing.contenders import contenders_of
from kerncast.studies.comparing.ranking import Key, rank

Order = tuple[Key, Sequence[Price], str | None]
"""what GPUs are sorted by, their prices, and the id of the GPU that each one is compared with"""


def compared(
    evidence: Sequence[Launch] | Sequence[KernelProfile],
    gpus: GPUsNoted,
    options: Options,
    order: Order,
    progress: Progress | None = None,
) -> Compared:
    """Return the GPUs in their order, each group by itself."""
    key, prices, other = order
    field = contenders_of(evidence, gpus, options, progress)
    return Compared(field, tuple(rank(group, prices, key, other) for group in field.groups), bool(prices))


def order_of(sort: str, price: Path | None, against: str | None, gpus: Sequence[GPU]) -> Order:
    """Return the order that is meant; raises InputError for an unknown one, and where a price or a GPU is missing."""
    try:
        key = Key(sort)
    except ValueError:
        raise InputError(f"--sort {sort[:40]!r} is unknown", cure=f"Known: {', '.join(Key)}.") from None
    if key is Key.COST and price is None:
        raise InputError("--sort cost needs prices", cure="Add --price prices.csv.")
    other = _against(against, gpus)
    return key, _prices(price, gpus), other


def _against(name: str | None, gpus: Sequence[GPU]) -> str | None:
    if name is None:
        return None
    own = [each.id for each in gpus if normalise(name) in {normalise(each.id), normalise(each.name)}]
    wanted = own[0] if own else resolve_gpus([name])[0][0].id
    if wanted not in {each.id for each in gpus}:
        raise InputError(f"--against {name[:60]} is not among the GPUs", cure="Name it with --gpu, too.")
    return wanted


def _prices(path: Path | None, gpus: Sequence[GPU]) -> tuple[Price, ...]:
    if path is None:
        return ()
    found = read_prices(path, gpus)
    if not {each.gpu_id for each in found} & {each.id for each in gpus}:
        raise InputError("none of the GPUs has a price", where=str(path), cure="Add rows for them.")
    return found


def refusal_of(found: Compared) -> Refusal:
    """Return the reason why no GPU was compared."""
    reasons = [f"{each.gpu}: {each.reason}" for each in found.field.set_apart]
    return Refusal(f"no GPU can be compared ({'; '.join(reasons[:3])})")
