"""Clusters that a GPU holds at once, against every division of a chip's SMs among its GPCs."""

import itertools
import json
from dataclasses import replace

import pytest

from kerncast.gpu import load_gpu
from kerncast.occupancy import ResidentClusters, resident_clusters
from tests.conftest import Run

H100 = load_gpu("h100-sxm")


@pytest.mark.parametrize(("sms", "per_sm", "blocks"), [(20, 1, 4), (22, 2, 8), (18, 3, 16), (24, 1, 2)])
def test_the_bounds_are_those_of_all_divisions(sms: int, per_sm: int, blocks: int) -> None:
    architecture = replace(H100.architecture, gpcs=4, sms_per_gpc=8)
    found = resident_clusters(per_sm, blocks, replace(H100, sm_count=sms, architecture=architecture))
    divisions = [sizes for sizes in itertools.product(range(0, 9, 2), repeat=4) if sum(sizes) == sms]
    counts = [sum(size * per_sm // blocks for size in sizes) for sizes in divisions]
    assert found == ResidentClusters(min(counts), max(counts))


def test_what_was_seen_on_a_board_lies_between_the_bounds() -> None:
    # accel-sim/gpu-app-collection, pull request 87: clusters of 8 blocks ran on 120 of 132 SMs of an H100, one on each.
    found = resident_clusters(1, 8, H100)
    assert found.least is not None
    assert found.least <= 120 // 8 <= found.most == 16


def test_without_the_size_of_a_gpc_only_the_most_is_known() -> None:
    assert resident_clusters(2, 4, load_gpu("b200")) == ResidentClusters(None, 148 * 2 // 4)


def test_the_command_tells_resident_clusters(kerncast: Run) -> None:
    options = ("occupancy", "--block", 128, "--registers", 200, "--shared", 200_000, "--gpu", "h100-sxm")
    clusters = json.loads(kerncast(*options, "--cluster", 4, "--json").stdout)["occupancies"][0]["clusters"]
    assert clusters == {"blocks_per_cluster": 4, "resident_at_least": 29, "resident_at_most": 32}
    assert "clusters of 4 blocks: 29 to 32" in kerncast(*options, "--cluster", 4).stdout
    assert json.loads(kerncast(*options, "--json").stdout)["occupancies"][0]["clusters"] is None
    assert kerncast(*options, "--cluster", 32).returncode == 2
