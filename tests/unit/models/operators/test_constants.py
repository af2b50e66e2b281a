from dataclasses import dataclass
from pathlib import Path

import pytest

from kerncast.errors import InputError
from kerncast.models.operators import elementwise, fp32_products, row_operators
from kerncast.models.operators.constants import constants_from, read_constants


@dataclass(frozen=True, slots=True)
class Node:
    architectures: tuple[int, ...]
    energy: float


@dataclass(frozen=True, slots=True)
class Constants:
    launch_s: float
    nodes: tuple[Node, ...]


WHOLE = "[constants]\nlaunch_s = 1e-6\n[[constants.nodes]]\narchitectures = [60, 61]\nenergy = 1\n"


def test_numbers_and_lists_of_tables_become_the_dataclass(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text(WHOLE)
    assert constants_from(Constants, file) == Constants(1e-6, (Node((60, 61), 1),))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("launch_s = ", "no readable TOML file"),
        ("launch_s = 1", "there is no table named constants"),
        ("constants = 1", "there is no table named constants"),
        ("[constants]\nlaunch_s = 1", "nodes is missing"),
        (WHOLE.replace("energy = 1", "energy = nan"), "nodes is not made of finite numbers"),
        (WHOLE.replace("1e-6", "true"), "launch_s is not made of finite numbers"),
        (WHOLE.replace("1e-6", '"1e-6"'), "launch_s is not made of finite numbers"),
        (WHOLE.replace("launch_s", "launch_s = 1\nother"), "other is no constant of this model"),
        (WHOLE.replace("energy", "power"), "architectures, energy"),
        (WHOLE.replace("[60, 61]", "[60.5]"), "float stands where"),
    ],
)
def test_a_faulty_file_is_refused_with_its_fault(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "some.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"some\.toml: these constants are faulty") as caught:
        constants_from(Constants, file)
    assert fault in str(caught.value)


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match=r"none-such\.toml"):
        read_constants(Constants, "none-such")


def test_the_fp32_operators_share_what_streams_get_of_the_bandwidth() -> None:
    """The element-wise fit decides; the other files repeat it."""
    own = read_constants(elementwise.Constants, "elementwise")
    others = (
        read_constants(row_operators.Constants, "softmax"), read_constants(row_operators.Constants, "norm"),
        read_constants(fp32_products.Constants, "bmm-fp32"), read_constants(fp32_products.Constants, "linear-fp32"),
    )  # fmt: skip
    for name in elementwise.STREAM_SHARES:
        assert {getattr(each, name) for each in others} == {getattr(own, name)}
