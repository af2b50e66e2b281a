"""Prices of GPUs are read strictly: each fault is named with its line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncast.errors import InputError
from kerncast.gpu import load_gpu
from kerncast.read.prices import Price, read_prices


def written(folder: Path, text: str) -> Path:
    path = folder / "prices.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_both_forms(tmp_path: Path) -> None:
    assert read_prices(written(tmp_path, "gpu,usd_per_hour\nT4,0.35\n\n l4 , 0.7 \n")) == (
        Price("t4", 0.35, None), Price("l4", 0.7, None),
    )  # fmt: skip
    found = read_prices(written(tmp_path, '\ufeffgpu,usd_per_hour,usd_price\n"RTX 3090",0.25,900\nt4,0.35,\n'))
    assert found == (Price("rtx-3090", 0.25, 900.0), Price("t4", 0.35, None))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it holds no price"),
        ("gpu,usd_per_hour\n", "it holds no price"),
        ("gpu,price\nt4,1\n", r"line 1: the columns are 'gpu,price'"),
        ("usd_per_hour,gpu\n1,t4\n", "line 1: the columns are"),
        ("gpu,usd_per_hour\nt4\n", "line 2: the row has 1 values, not 2"),
        ("gpu,usd_per_hour\nt4,1,2\n", "line 2: the row has 3 values, not 2"),
        ("gpu,usd_per_hour\nt4,-1\n", "line 2: usd_per_hour is '-1'"),
        ("gpu,usd_per_hour\nt4,0\n", "line 2: usd_per_hour is '0'"),
        ("gpu,usd_per_hour\nt4,nan\n", "line 2: usd_per_hour is 'nan'"),
        ("gpu,usd_per_hour\nt4,inf\n", "line 2: usd_per_hour is 'inf'"),
        ("gpu,usd_per_hour\nt4,$1\n", r"line 2: usd_per_hour is '\$1'"),
        ("gpu,usd_per_hour,usd_price\nt4,1,-3\n", "line 2: usd_price is '-3'"),
        ("gpu,usd_per_hour\nt4,1\nTesla T4,2\n", "line 3: t4 has a price twice"),
        ("gpu,usd_per_hour\nt5,1\n", "line 2: no GPU is called 't5'"),
        ("gpu,usd_per_hour\nH100,1\n", "line 2: 'H100' may be several GPUs. Name one: h100-sxm; h100-pcie; h100-nvl"),
        ("gpu,usd_per_hour\nmine.toml,1\n", r"line 2: 'mine\.toml' is a file that is not compared"),
        ('gpu,usd_per_hour\n"t4,1\n', "line 2: not CSV"),
        ("gpu,usd_per_hour\nt4,1\0\n", "it is binary"),
    ],
)
def test_faults(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        read_prices(written(tmp_path, text))


def test_a_gpu_of_a_users_file_is_known_when_it_is_compared(tmp_path: Path) -> None:
    (tmp_path / "wide.toml").write_text('from = "t4"\nsm_count = 80\n', encoding="utf-8")
    own = load_gpu(tmp_path / "wide.toml")
    assert read_prices(written(tmp_path, "gpu,usd_per_hour\nwide,2\n"), [own]) == (Price("wide", 2.0, None),)


@given(st.text(alphabet='gpu,usd_per_hour\nt4"0.5-e \t', max_size=60))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = written(tmp_path_factory.getbasetemp(), "gpu,usd_per_hour\n" + text)
    try:
        found = read_prices(path)
    except InputError:
        return
    assert all(price.usd_per_hour > 0 for price in found)
