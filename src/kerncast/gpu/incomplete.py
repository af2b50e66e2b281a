"""NOUN IncompleteGPU: a GPU of the catalogue of which too little is published for any forecast.

The facts lie in ``data/incomplete_gpus/*.toml``, of the same form as ``data/gpus/*.toml``.
"""

from dataclasses import dataclass

from kerncast.gpu.files import INCOMPLETE_FOLDER, Fact, incomplete_ids, read_sheet, unknown_to_all
from kerncast.gpu.gpu import Architecture, load_architecture


@dataclass(frozen=True, slots=True)
class IncompleteGPU:
    """A GPU that lacks values which every model needs."""

    id: str
    name: str
    architecture: Architecture
    facts: tuple[Fact, ...]
    """all values of the GPU's own file, with sources and status"""
    lacks: tuple[str, ...]
    """missing keys, such as peak.clock_boost_mhz"""

    @property
    def all_facts(self) -> tuple[Fact, ...]:
        """Every value of the GPU's own file, then those that it inherits."""
        own = {fact.key for fact in self.facts}
        return (*self.facts, *(fact for fact in self.architecture.facts if fact.key not in own))


def load_incomplete(gpu_id: str) -> IncompleteGPU:
    """Load one by its id.

    >>> load_incomplete("h20").lacks
    ('peak.clock_boost_mhz', 'lanes.fp64_per_sm')
    """
    path = INCOMPLETE_FOLDER / f"{gpu_id}.toml"
    sheet = read_sheet(path, "gpu", may_lack=True)
    return IncompleteGPU(
        id=gpu_id,
        name=sheet.name or gpu_id,
        architecture=load_architecture(sheet.parent or ""),
        facts=tuple(sheet.facts.values()),
        lacks=tuple(rule.key for rule in unknown_to_all(sheet)),
    )


def list_incomplete() -> tuple[IncompleteGPU, ...]:
    """Load all of them, sorted by id."""
    return tuple(load_incomplete(gpu_id) for gpu_id in incomplete_ids())
