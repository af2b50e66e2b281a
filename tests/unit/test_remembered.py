"""Results are remembered by identity, in bounded number, and never of another object at the same address."""

import pytest

from kerncast.remembered import remembered


class Named:
    """Equal to all others: only identity tells them apart."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named)

    __hash__ = None  # type: ignore[assignment]


def test_objects_are_told_apart_by_identity_and_small_values_by_value() -> None:
    asked: list[tuple[str, tuple[int, ...]]] = []

    @remembered(10)
    def name_of(named: Named, bits: tuple[int, ...] = ()) -> str:
        asked.append((named.name, bits))
        return named.name

    one, other = Named("one"), Named("other")
    assert [name_of(each) for each in (one, other, one, other)] == ["one", "other", "one", "other"]
    assert [name_of(one, tuple([16, 32])) for _ in range(3)] == ["one"] * 3  # noqa: C409  a new tuple each time
    assert asked == [("one", ()), ("other", ()), ("one", (16, 32))]


def test_new_objects_at_old_addresses_are_not_mixed_up() -> None:
    @remembered(3)
    def name_of(named: Named) -> str:
        return named.name

    for number in range(1000):  # each is freed as soon as it is forgotten, so that addresses return
        assert name_of(Named(str(number))) == str(number)


def test_errors_are_not_remembered() -> None:
    asked = []

    @remembered(3)
    def failing(number: int) -> int:
        asked.append(number)
        raise ValueError(number)

    for _ in range(2):
        with pytest.raises(ValueError, match="7"):
            failing(7)
    assert asked == [7, 7]
