"""A function of PTX text in the making, and what its parts share: registers, literals, guards, labels."""

import random
from dataclasses import dataclass, field

#: Registers by class: how many, and their PTX type. Those after the first row are temporary within a line, or reserved.
REGISTERS = {
    "p": (6, "pred"), "h": (6, "b16"), "r": (8, "b32"), "d": (6, "b64"), "f": (8, "f32"), "g": (4, "f64"),
    "q": (3, "pred"), "u": (2, "b16"), "t": (9, "b32"), "a": (5, "b64"), "c": (12, "b32"), "o": (1, "b64"),
    "w": (2, "b128"),
}  # fmt: skip
#: Registers that hold the global index of the thread, its index in the block, and that of its own places in buffers.
THREAD, IN_BLOCK, PLACE = "%c1", "%c2", "%c3"
#: Class of the registers that hold a type.
CLASSES = {
    "pred": "p", "u16": "h", "s16": "h", "b16": "h", "f16": "h", "bf16": "h", "u32": "r", "s32": "r",
    "b32": "r", "f16x2": "r", "bf16x2": "r", "u16x2": "r", "s16x2": "r", "u64": "d", "s64": "d", "b64": "d",
    "f32x2": "d", "b128": "w", "f32": "f", "f64": "g",
}  # fmt: skip
_INTEGERS = (0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, -1, -128, 32767, -32768)
_WIDE_INTEGERS = (65535, 2147483647, -2147483648, 16777216, 305419896)
#: Numbers that are special to singles, doubles or halves, as words.
WORDS = (
    0, 1, 2, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x00800000, 0x007FFFFF,
    0x00000400, 0x807FFFFF, 0x7F7FFFFF, 0x4B000000, 0x4F000000, 0xCF000000, 0x5F000000, 0x3F000000, 0x3EFFFFFF,
    0x40490FDB, 0x3C003C00, 0x7C00FC00, 0x7E000001, 0x00010400, 0x83FF7BFF, 0x3F803F80, 0x7F80FF80, 0x7FC17F81,
    0x0001007F, 0x7F7F0080, 0x3FF00000, 0x7FF00000, 0xFFF00000, 0x7FF80000, 0x7FF00001, 0x00100000, 0x000FFFFF,
    0x41DFFFFF, 0x43E00000, 0xC1E00000, 0x7FEFFFFF, 0x36A00000, 0x47EFFFFF, 0xFFFFFFFF, 0x7FFFFFFF, 0x12345678,
)  # fmt: skip
_NO_LITERALS = {"pred", "f16", "bf16", "f16x2", "bf16x2", "u16x2", "s16x2", "f32x2", "b128"}


@dataclass
class Code:
    """A function in the making."""

    choose: random.Random
    lines: list[str] = field(default_factory=list)
    labels: int = 0
    loose: bool = False
    """whether barriers may stand where only some threads of a warp meet them"""

    def add(self, text: str) -> None:
        """Write one line."""
        self.lines.append(text)

    def label(self) -> str:
        """Return a label that is not in use."""
        self.labels += 1
        return f"L{self.labels}"

    def chance(self, probability: float) -> bool:
        return self.choose.random() < probability

    def register(self, kind: str) -> str:
        letter = CLASSES[kind]
        return f"%{letter}{self.choose.randrange(REGISTERS[letter][0])}"

    def source(self, kind: str) -> str:
        """Return a register, or a literal where the type allows one."""
        if kind == "n":  # the line has to set %t0
            return self.choose.choice(["%t0", "%t0", str(self.choose.randrange(80)), self.register("b32")])
        if kind in _NO_LITERALS or self.chance(0.8):
            return self.register(kind)
        if kind == "f32":
            return f"0f{self.choose.choice(WORDS):08X}"
        if kind == "f64":
            return f"0d{self.choose.choice(WORDS):08X}{self.choose.choice((0, 0, 1, 0xFFFFFFFF)):08X}"
        numbers = {"b16": _INTEGERS, "u16": _INTEGERS, "s16": _INTEGERS}
        return str(self.choose.choice(numbers.get(kind, _INTEGERS + _WIDE_INTEGERS)))

    def predicate(self) -> str:
        """Return a guard for a branch."""
        return f"@{self.choose.choice(('', '!'))}{self.register('pred')}"

    def guard(self, probability: float = 0.15) -> str:
        """Return a guard, or nothing."""
        if not self.chance(probability):
            return ""
        return self.predicate() + " "
