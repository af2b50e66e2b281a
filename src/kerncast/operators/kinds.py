"""The kinds of operators: the sizes that each is known by, under the names that libraries and data sets use.

The meaning of the sizes is that of the measured data: ``bmm`` and ``linear`` contract over N, as NeuSight's tables do,
``gemm`` over K, as BLAS does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from kerncast.errors import InputError, MissingEvidenceError

#: No tensor of a model has a side as long.
_LONGEST_SIDE = 2**40
_MOST_SHOWN = 60
_WORD = re.compile(r"(?!(?:nan|inf|infinity)$)[a-z_][\w.-]*")


class Family(StrEnum):
    """Operators that one model times."""

    PRODUCT = "product"
    """matrix products"""
    ELEMENTWISE = "element-wise"
    SOFTMAX = "softmax"
    NORM = "norm"
    PREFILL = "prefill"
    """attention of many queries of each sequence"""
    DECODE = "decode"
    """attention of one query of each sequence to cached keys and values"""
    EXPERTS = "experts"
    """mixture of experts"""


@dataclass(frozen=True, slots=True)
class Size:
    """One size of an operator."""

    name: str
    meaning: str
    also: tuple[str, ...] = ()
    """other names, of libraries and data sets"""
    default: int | None = None
    """value where none is given; None: it has to be given"""
    least: int = 1
    words: tuple[tuple[str, int], ...] = ()
    """values that are written as words"""

    def value_of(self, text: str) -> int:
        """Return the value that a text means; raises InputError for no size, MissingEvidenceError for unknown words."""
        given = text.strip().lower()
        for word, value in self.words:
            if given == word:
                return value
        if self.words and _WORD.fullmatch(given):
            raise MissingEvidenceError(f"no measured data cover {self.name} {text[:40]!r}", cure=self._cure)
        try:
            number = float(text)
            value = int(number)
        except (ValueError, OverflowError):
            raise InputError(f"{self.name} is {text[:40]!r}", cure=self._cure) from None
        if value != number or not self.least <= value <= _LONGEST_SIDE:
            raise InputError(f"{self.name} is {text[:40]}", cure=self._cure)
        return value

    @property
    def _cure(self) -> str:
        words = "".join(f", or {word}" for word, _ in self.words)
        return f"{self.name} ({self.meaning}) is a whole number from {self.least}{words}."


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of operator."""

    name: str
    family: Family
    meaning: str
    sizes: tuple[Size, ...]
    formats: tuple[str, ...]
    """number formats that are forecast; the first is taken where none is given

    The first differs: bmm and linear are FP32, as in NeuSight's tables, gemm is BF16, as in aiconfigurator's. Not each
    was measured: fp16 is taken to be as bf16, and bmm in 16 bits as as many products of gemm.
    """
    also: tuple[str, ...] = ()

    @property
    def has_cache(self) -> bool:
        """Whether keys and values are stored in a format of their own."""
        return self.is_attention and "KV" in self.dimensions

    @property
    def is_attention(self) -> bool:
        """Whether queries attend to keys."""
        return self.family in {Family.PREFILL, Family.DECODE}

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the sizes, in their order."""
        return tuple(size.name for size in self.sizes)

    @property
    def signature(self) -> str:
        """How the operator is written.

        >>> kind_named("softmax").signature
        'softmax(B, H)'
        """
        return f"{self.name}({', '.join(self.dimensions)})"

    def sizes_from(self, given: Mapping[str, str]) -> tuple[int, ...]:
        """Return the sizes from values by name in lower case; raises InputError for missing or impossible ones."""
        found = tuple(self._size_from(size, given) for size in self.sizes)
        self._check_together(dict(zip(self.dimensions, found, strict=True)))
        return found

    def _check_together(self, sizes: Mapping[str, int]) -> None:
        if sizes.get("KV") and sizes["H"] % sizes["KV"]:
            what = f"H is {sizes['H']} and KV is {sizes['KV']}"
            raise InputError(f"{self.name}: {what}", cure="H is a multiple of KV, or KV is 0 for as many as H.")
        for part in ("topk", "ep"):
            if part in sizes and sizes[part] > sizes["E"]:
                what = f"{part} is {sizes[part]} and E is {sizes['E']}"
                raise InputError(f"{self.name}: {what}", cure=f"{part} is at most E, the number of experts.")

    def _size_from(self, size: Size, given: Mapping[str, str]) -> int:
        text = next(
            (given[name.lower()] for name in (size.name, *size.also) if given.get(name.lower(), "").strip()), None
        )
        if text is not None:
            return size.value_of(text)
        if size.default is None:
            raise InputError(f"{self.name} needs {size.name}, its {size.meaning}", cure=f"Write {self.signature}.")
        return size.default

    def size_names(self) -> tuple[tuple[str, ...], ...]:
        """Return all names of each size, in lower case."""
        return tuple(tuple(name.lower() for name in (size.name, *size.also)) for size in self.sizes)


_FP32 = ("fp32",)
_HALVES = ("bf16", "fp16")
_B = Size("B", "batch", ("batch",))
_ROWS = Size("B", "number of rows", ("rows", "batch"))
_H = Size("H", "length of a row", ("columns", "hidden"))
_BATCH = Size("B", "sequences", ("batch_size", "batch"))
_HEADS = Size("H", "query heads", ("num_heads", "heads"))
_KV_HEADS = Size("KV", "heads of keys and values; 0: as many as query heads", ("num_key_value_heads", "kv_heads"), 0, 0)
_HEAD_SIZE = Size("D", "size of a head", ("head_dim", "head_size"), 128)
_WINDOW = Size("W", "keys that a query attends to at most; 0: all", ("window_size", "window"), 0, 0)
_QUERIES = Size("S", "queries of each sequence", ("isl", "seq_len", "sequence"))
_CACHED = Size("S", "cached keys of each sequence", ("step", "cached", "kv_len"), least=0)
_ROUTING = Size(
    "routing", "how tokens spread over experts: power of the law in hundredths, 0 balanced", ("distribution",), 0, 0,
    (("balanced", 0), ("power_law_1.01", 101), ("power_law_1.2", 120)),
)  # fmt: skip


def _elementwise() -> tuple[Kind, ...]:
    two = {"add": "sum", "mul": "product", "div": "quotient", "pow": "power"}
    one = {
        "addu": "sum with a number", "mulu": "product with a number", "divu": "quotient by a number",
        "powu": "power by a number", "relu": "max(x, 0)", "gelu": "Gaussian error linear unit",
        "tanh": "hyperbolic tangent", "sigmoid": "1 / (1 + exp(-x))", "silu": "x sigmoid(x)", "exp": "exponential",
    }  # fmt: skip
    named = {"silu": ("swish",)}
    return tuple(
        Kind(name, Family.ELEMENTWISE, f"{meaning}, {number} [B, H]", (_ROWS, _H), _FP32, named.get(name, ()))
        for table, number in ((two, "of two tensors"), (one, "of a tensor"))
        for name, meaning in table.items()
    )


_PRODUCT_FORMATS = ("fp32", *_HALVES, "fp8", "fp8_block", "int8", "int8_wo", "int4_wo")
_KINDS = (
    Kind(
        "bmm", Family.PRODUCT, "[B, M, N] times [B, N, K]",
        (_B, Size("M", "rows of the result"), Size("N", "what is summed over"), Size("K", "columns of the result")),
        ("fp32", *_HALVES), ("matmul",),
    ),
    Kind(
        "linear", Family.PRODUCT, "[B, M, N] times [N, K], plus K biases",
        (Size("B", "batch", ("batch",), 1), Size("M", "rows of each of the batch"), Size("N", "what is summed over"),
         Size("K", "columns of the result")), _PRODUCT_FORMATS,
    ),
    Kind(
        "gemm", Family.PRODUCT, "[M, K] times [K, N]",
        (Size("M", "rows of the result"), Size("N", "columns of the result"), Size("K", "what is summed over")),
        (*_PRODUCT_FORMATS[1:], "fp32"), ("mm",),
    ),
    *_elementwise(),
    Kind("softmax", Family.SOFTMAX, "softmax of each row of [B, H]", (_ROWS, _H), _FP32),
    Kind("ln", Family.NORM, "layer norm of each row of [B, H]", (_ROWS, _H), _FP32, ("layer_norm", "layernorm")),
    Kind("rmsnorm", Family.NORM, "root-mean-square norm of each row of [B, H], one kernel", (_ROWS, _H), _FP32,
         ("rms_norm",)),
    Kind(
        "context_attention", Family.PREFILL, "causal attention of S new tokens",
        (_BATCH, _QUERIES, _HEADS, _KV_HEADS, _HEAD_SIZE, _WINDOW), (*_HALVES, "fp8"), ("prefill", "attention"),
    ),
    Kind(
        "encoder_attention", Family.PREFILL, "attention of all S tokens to all",
        (_BATCH, _QUERIES, _HEADS, _HEAD_SIZE), _HALVES,
    ),
    Kind(
        "generation_attention", Family.DECODE, "attention of one new token to S cached ones",
        (_BATCH, _CACHED, _HEADS, _KV_HEADS, _HEAD_SIZE, _WINDOW), _HALVES, ("decode",),
    ),
    Kind(
        "moe", Family.EXPERTS, "mixture of gated experts, one GPU's part",
        (
            Size("T", "tokens", ("num_tokens", "tokens")), Size("H", "size of a token", ("hidden_size",)),
            Size("F", "size inside an expert", ("inter_size",)), Size("topk", "experts of each token", ("top_k",)),
            Size("E", "experts", ("num_experts",)),
            Size("tp", "GPUs that share each expert", ("moe_tp_size",), 1),
            Size("ep", "GPUs that share the experts", ("moe_ep_size",), 1), _ROUTING,
        ),
        (*_HALVES, "fp8", "fp8_block", "int4_wo", "mxfp4_wo"),
    ),
)  # fmt: skip
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
_BY_NAME = {name: kind for kind in _KINDS for name in (kind.name, *kind.also)}


def kind_named(name: str) -> Kind:
    """Return the kind of operator of this name; raises MissingEvidenceError for one that no measured data cover."""
    found = _BY_NAME.get(name.strip().lower())
    if found is None:
        near = get_close_matches(name.strip().lower(), _BY_NAME, 3)
        hint = f"Near: {', '.join(near)}." if near else f"Known: {', '.join(KINDS)}."
        raise MissingEvidenceError(f"no measured data cover an operator called {name[:_MOST_SHOWN]!r}", cure=hint)
    return found
