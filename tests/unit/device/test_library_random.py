"""cuRAND's numbers: of their distributions by tests of SciPy's, and the same for the same seed and place."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats
from scipy.stats import qmc

from kerncast.errors import IllegalAddress
from tests.helpers.library_calls import At, Device

Array = npt.NDArray[Any]
XORWOW, MRG32K3A, MTGP32, MT19937, PHILOX = 101, 121, 141, 142, 161
SOBOL32, SCRAMBLED32, SOBOL64, SCRAMBLED64 = 201, 202, 203, 204
TYPE_ERROR, OUT_OF_RANGE, NOT_MULTIPLE = 103, 104, 105
COUNT = 20_000
#: A right generator fails one test of so many.
LEAST = 1e-4


@dataclass(frozen=True, slots=True)
class Generator:
    """What a generator is set to."""

    kind: int = XORWOW
    seed: int = 7
    offset: int = 0
    dimensions: int = 1


def generate(
    name: str, dtype: Any, count: int = COUNT, of: tuple[float, float] = (0.0, 0.0), **settings: int
) -> Array:  # fmt: skip
    device, given = Device(), Generator(**settings)
    place = device.allocate(count * np.dtype(dtype).itemsize)
    operands = (given.kind, given.seed, given.offset, given.dimensions, 0, place, count, *map(np.float64, of))
    found = device.call(f"curandGenerate{name}", *operands)
    assert found.status == 0
    assert found.work is not None
    assert found.work.nbytes == count * np.dtype(dtype).itemsize
    return device.get(place, (count,), dtype)


@pytest.mark.parametrize("kind", [XORWOW, MRG32K3A, MTGP32, MT19937, PHILOX])
def test_numbers_are_uniform_and_independent(kind: int) -> None:
    for name, dtype in (("Uniform", np.float32), ("UniformDouble", np.float64)):
        found = generate(name, dtype, kind=kind)
        assert found.min() > 0
        assert found.max() <= 1
        assert stats.kstest(found, "uniform").pvalue > LEAST
        pairs, _, _ = np.histogram2d(found[::2], found[1::2], bins=10)
        assert stats.chisquare(pairs.ravel()).pvalue > LEAST
    bits = generate("", np.uint32, kind=kind)
    ones = np.unpackbits(bits.view(np.uint8)).reshape(-1, 32).sum(axis=0)
    assert stats.chisquare(ones).pvalue > LEAST


@pytest.mark.parametrize(("name", "dtype"), [("Normal", np.float32), ("NormalDouble", np.float64)])
def test_numbers_are_normal(name: str, dtype: Any) -> None:
    found = generate(name, dtype, of=(3.0, 2.0))
    assert stats.kstest(found, "norm", (3, 2)).pvalue > LEAST
    logarithms = np.log(generate(f"Log{name}", dtype, of=(0.5, 0.25)))
    assert stats.kstest(logarithms, "norm", (0.5, 0.25)).pvalue > LEAST


@pytest.mark.parametrize("mean", [0.01, 1.0, 9.5, 400.0, 1e6])
def test_numbers_are_of_poissons_distribution(mean: float) -> None:
    found = generate("Poisson", np.uint32, of=(mean, 0.0))
    edges = stats.poisson.ppf([0.1, 0.25, 0.5, 0.75, 0.9], mean)
    edges = np.unique(np.concatenate([[-1], edges, [2.0**32]]))
    counts, _ = np.histogram(found, edges + 0.5)
    expected = np.diff(stats.poisson.cdf(edges, mean)) * COUNT
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > LEAST


@pytest.mark.parametrize("name", ["Uniform", "Normal", "Poisson"])
def test_the_seed_and_the_place_tell_the_numbers(name: str) -> None:
    dtype = np.uint32 if name == "Poisson" else np.float32
    whole = generate(name, dtype, 1000, of=(2.0, 1.0))
    assert (generate(name, dtype, 1000, of=(2.0, 1.0)) == whole).all()
    for offset in (2, 5, 500):
        assert (generate(name, dtype, 500, offset=offset, of=(2.0, 1.0)) == whole[offset : offset + 500]).all()
    assert (generate(name, dtype, 1000, seed=8, of=(2.0, 1.0)) != whole).any()
    assert (generate(name, dtype, 1000, kind=PHILOX, of=(2.0, 1.0)) != whole).any()
    assert (generate(name, dtype, 1000, seed=-1, of=(2.0, 1.0)) != whole).any()


def test_large_counts_are_made_in_parts_that_fit_together() -> None:
    count = 2**20 + 1000
    whole = generate("", np.uint32, count)
    assert (generate("", np.uint32, 2000, offset=2**20 - 1000) == whole[-2000:]).all()


@pytest.mark.parametrize("dimensions", [1, 3, 50])
def test_sobols_sequence_has_its_dimensions_one_after_the_other(dimensions: int) -> None:
    found = generate("Uniform", np.float32, 64 * dimensions, kind=SOBOL32, dimensions=dimensions)
    wanted = qmc.Sobol(dimensions, scramble=False).random(64)
    np.testing.assert_allclose(found.reshape(dimensions, 64).T, wanted, atol=1e-6)
    later = generate("Uniform", np.float32, 32 * dimensions, kind=SOBOL32, dimensions=dimensions, offset=32)
    assert (later.reshape(dimensions, 32) == found.reshape(dimensions, 64)[:, 32:]).all()


def test_scrambled_points_are_as_even_as_the_others() -> None:
    plain, scrambled = (
        generate("UniformDouble", np.float64, 2 * 256, kind=kind, dimensions=2).reshape(2, 256).T
        for kind in (SOBOL32, SCRAMBLED32)
    )
    assert (plain != scrambled).all()
    random = generate("UniformDouble", np.float64, 2 * 256).reshape(256, 2)
    assert qmc.discrepancy(scrambled) < 0.2 * qmc.discrepancy(random)


def test_sequences_of_64_bits_fill_them() -> None:
    found = generate("LongLong", np.uint64, 1024, kind=SCRAMBLED64)
    assert len(np.unique(found)) == 1024
    assert found.max() > 2**63
    assert generate("LongLong", np.uint64, 4, kind=SOBOL64).tolist() == [0, 2**63, 2**63 + 2**62, 2**62]


@pytest.mark.parametrize(("name", "numbers", "status"), [
    ("Normal", (XORWOW, 3, 1, 0.0), NOT_MULTIPLE), ("Normal", (SOBOL32, 4, 3, 0.0), NOT_MULTIPLE),
    ("LongLong", (XORWOW, 4, 1, 0.0), TYPE_ERROR), ("", (SOBOL64, 4, 1, 0.0), TYPE_ERROR),
    ("Uniform", (SOBOL32, 4, 0, 0.0), OUT_OF_RANGE), ("Uniform", (SOBOL32, 4, 20_001, 0.0), OUT_OF_RANGE),
    ("Poisson", (XORWOW, 4, 1, -1.0), OUT_OF_RANGE), ("Poisson", (XORWOW, 4, 1, float("nan")), OUT_OF_RANGE),
    ("Uniform", (99, 4, 1, 0.0), TYPE_ERROR),
])  # fmt: skip
def test_what_cannot_be_made_is_told(name: str, numbers: tuple[int, int, int, float], status: int) -> None:
    device = Device()
    place = device.allocate(256)
    kind, count, dimensions, mean = numbers
    operands = (kind, 1, 0, dimensions, 0, place, count, np.float64(mean), np.float64(1))
    assert device.call(f"curandGenerate{name}", *operands).status == status


def test_pointers_that_lead_nowhere_are_illegal() -> None:
    device = Device()
    place = device.allocate(256)
    for where, count in ((place, 65), (At(64), 1), (place, 2**62)):
        with pytest.raises(IllegalAddress):
            device.call("curandGenerateUniform", XORWOW, 1, 0, 1, 0, where, count, np.float64(0), np.float64(0))
