"""Write the operators of a PyTorch module as a file that ``kerncast predict`` reads.

    from export_model import export
    export(model, (example,), "model.json")          # then: kerncast predict model.json --gpu h200

Uses ``torch.export``, which needs PyTorch 2.5 or newer; kerncast itself does not need PyTorch. Operators that kerncast
does not know are listed on stderr: convolutions, gathers and whatever else a module does.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from math import prod
from pathlib import Path
from typing import Any

#: Names of element-wise operators, those of two tensors and those of one.
_TWO = {"aten.add.Tensor": "add", "aten.mul.Tensor": "mul", "aten.div.Tensor": "div", "aten.pow.Tensor_Tensor": "pow"}
_ONE = {
    "aten.relu.default": "relu", "aten.gelu.default": "gelu", "aten.tanh.default": "tanh", "aten.exp.default": "exp",
    "aten.sigmoid.default": "sigmoid", "aten.silu.default": "silu",
}  # fmt: skip
#: The same where the second operand is a number.
_WITH_NUMBER = {"add": "addu", "mul": "mulu", "div": "divu", "pow": "powu"}
_FORMATS = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16"}
#: Operators that move no data, or only describe it.
_FREE = (
    "view", "reshape", "permute", "transpose", "expand", "unsqueeze", "squeeze", "slice", "select", "detach", "alias",
    "unflatten", "flatten", "split", "chunk", "getitem", "sym_size", "dropout", "to.", "_assert",
)  # fmt: skip

Found = dict[str, Any]


def export(module: Any, arguments: tuple[Any, ...], path: str | Path) -> None:
    """Write the operators that a module calls for some arguments, each once with its count."""
    from torch.export import export as traced  # noqa: PLC0415  the example is read without it

    operators, unknown = operators_of(traced(module, arguments).graph.nodes)
    Path(path).write_text(json.dumps({"operators": operators}, indent=1) + "\n", encoding="utf-8")
    for name, count in unknown.items():
        print(f"not exported: {count} x {name}", file=sys.stderr)


def operators_of(nodes: Iterable[Any]) -> tuple[list[Found], Counter[str]]:
    """Return the operators of a graph with their counts, and the names of the calls that kerncast does not know."""
    counted: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for node in nodes:
        if node.op != "call_function" or any(each in str(node.target) for each in _FREE):
            continue
        found = _operator(node)
        if found is None:
            unknown[str(node.target)] += 1
        else:
            counted[json.dumps(found)] += 1
    return [{**json.loads(text), "count": count} for text, count in counted.items()], unknown


def _operator(node: Any) -> Found | None:
    name = str(node.target)
    made = _PRODUCTS.get(name)
    if made is not None:
        return {**made(node), "dtype": _format(node)}
    kind = _TWO.get(name) or _ONE.get(name)
    if kind is None:
        return None
    if name in _TWO and not hasattr(node.args[1], "meta"):
        kind = _WITH_NUMBER[kind]
    return {"op": kind, **_rows(_shape(node)), "dtype": _format(node)}


def _shape(node: Any) -> tuple[int, ...]:
    return tuple(int(side) for side in node.meta["val"].shape)


def _format(node: Any) -> str:
    dtype = str(node.meta["val"].dtype)
    return _FORMATS.get(dtype, dtype.removeprefix("torch."))


def _rows(shape: tuple[int, ...]) -> Found:
    return {"B": prod(shape[:-1]), "H": shape[-1] if shape else 1}


def _linear(node: Any) -> Found:
    (*rows, summed), (columns, _) = _shape(node.args[0]), _shape(node.args[1])
    return {"op": "linear", "B": 1, "M": prod(rows), "N": summed, "K": columns}


def _mm(node: Any) -> Found:
    one, other = node.args[-2:]  # addmm has the bias before them
    (rows, summed), (_, columns) = _shape(one), _shape(other)
    return {"op": "linear", "B": 1, "M": rows, "N": summed, "K": columns}


def _bmm(node: Any) -> Found:
    *batch, rows, summed = _shape(node.args[0])
    *_, columns = _shape(node.args[1])
    return {"op": "bmm", "B": prod(batch), "M": rows, "N": summed, "K": columns}


def _matmul(node: Any) -> Found:
    (*rows, summed), other = _shape(node.args[0]), _shape(node.args[1])
    if len(other) > _MATRIX:
        return _bmm(node)
    return {"op": "linear", "B": 1, "M": prod(rows), "N": summed, "K": other[-1]}


_MATRIX = 2


def _attention(node: Any) -> Found:
    (batch, heads, queries, size), key = _shape(node.args[0]), _shape(node.args[1])
    is_causal = bool(node.kwargs.get("is_causal", False)) or (len(node.args) > _CAUSAL and bool(node.args[_CAUSAL]))
    if queries == 1:
        return {"op": "generation_attention", "B": batch, "S": key[2], "H": heads, "KV": key[1], "D": size}
    if is_causal:
        return {"op": "context_attention", "B": batch, "S": queries, "H": heads, "KV": key[1], "D": size}
    return {"op": "encoder_attention", "B": batch, "S": queries, "H": heads, "D": size}


#: Place of is_causal among the arguments of scaled_dot_product_attention.
_CAUSAL = 5


def _of_rows(kind: str) -> Callable[[Any], Found]:
    return lambda node: {"op": kind, **_rows(_shape(node.args[0]))}


_PRODUCTS: dict[str, Callable[[Any], Found]] = {
    "aten.linear.default": _linear, "aten.mm.default": _mm, "aten.addmm.default": _mm, "aten.bmm.default": _bmm,
    "aten.matmul.default": _matmul, "aten.scaled_dot_product_attention.default": _attention,
    "aten.softmax.int": _of_rows("softmax"), "aten._softmax.default": _of_rows("softmax"),
    "aten.layer_norm.default": _of_rows("ln"), "aten.rms_norm.default": _of_rows("rmsnorm"),
}  # fmt: skip
