"""The example that exports a PyTorch module, on a graph with the names and shapes that ``torch.export`` gives."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kerncast.operators import kind_named, operator_of
from tests.helpers.places import ROOT


@dataclass
class Node:
    """What a node of ``torch.fx`` has."""

    target: str
    shape: tuple[int, ...]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    op: str = "call_function"
    dtype: str = "torch.bfloat16"

    @property
    def meta(self) -> dict[str, Any]:
        return {"val": SimpleNamespace(shape=self.shape, dtype=self.dtype)}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("export_model", ROOT / "examples" / "export_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tensor(*shape: int) -> Node:
    return Node("x", shape, op="placeholder")


def test_each_call_becomes_the_operator_that_it_is(example: ModuleType) -> None:
    one: Callable[..., Any] = lambda *nodes: example.operators_of(nodes)[0]  # noqa: E731
    linear = Node("aten.linear.default", (2, 8, 64), (tensor(2, 8, 32), tensor(64, 32), tensor(64)))
    assert one(linear) == [{"op": "linear", "B": 1, "M": 16, "N": 32, "K": 64, "dtype": "bf16", "count": 1}]
    assert one(linear, linear)[0]["count"] == 2
    addmm = Node("aten.addmm.default", (16, 64), (tensor(64), tensor(16, 32), tensor(32, 64)))
    assert one(addmm) == one(linear)
    bmm = Node("aten.bmm.default", (4, 8, 16), (tensor(4, 8, 32), tensor(4, 32, 16)), dtype="torch.float32")
    assert one(bmm) == [{"op": "bmm", "B": 4, "M": 8, "N": 32, "K": 16, "dtype": "fp32", "count": 1}]
    number = Node("aten.mul.Tensor", (4, 8), (tensor(4, 8), 2.0), dtype="torch.float32")
    assert (one(number)[0]["op"], one(number)[0]["B"], one(number)[0]["H"]) == ("mulu", 4, 8)


def test_attention_is_told_by_its_queries_and_its_mask(example: ModuleType) -> None:
    def found(queries: int, **more: Any) -> dict[str, Any]:
        query, key = tensor(2, 32, queries, 128), tensor(2, 8, 512, 128)
        node = Node("aten.scaled_dot_product_attention.default", query.shape, (query, key, key), more)
        return dict(example.operators_of([node])[0][0])

    assert found(512, is_causal=True)["op"] == "context_attention"
    assert found(512)["op"] == "encoder_attention"
    decode = found(1)
    assert (decode["op"], decode["S"], decode["KV"]) == ("generation_attention", 512, 8)


def test_what_is_not_known_is_counted_and_views_are_free(example: ModuleType) -> None:
    nodes = [Node("aten.convolution.default", (1,)), Node("aten.view.default", (1,)), tensor(1)]
    operators, unknown = example.operators_of(nodes)
    assert operators == []
    assert unknown == {"aten.convolution.default": 1}


def test_kerncast_reads_what_is_exported(example: ModuleType) -> None:
    rows = Node("aten.layer_norm.default", (2, 8, 64), (tensor(2, 8, 64),), dtype="torch.float32")
    [found] = example.operators_of([rows])[0]
    read = operator_of(kind_named(found["op"]), {name.lower(): str(value) for name, value in found.items()})
    assert read.text == "ln(B=16, H=64, dtype=fp32)"
