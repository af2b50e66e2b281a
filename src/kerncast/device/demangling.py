"""The name of a function in its mangled name, however long: libstdc++ takes no name of more than 1024 letters apart.

Only names that C++ can write are read: of lambdas, expressions and constructors there is none. Source: Itanium C++ ABI,
"Mangling" (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling).
"""

import re
from collections.abc import Callable

_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "g": "__float128", "z": "...", "Dh": "half", "Di": "char32_t", "Ds": "char16_t",
    "Du": "char8_t", "Da": "auto", "Dn": "std::nullptr_t", "DF16_": "_Float16", "DF16b": "__bf16",
}  # fmt: skip
_ENDING = {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
_STANDARD = {
    "t": "std", "a": "std::allocator", "b": "std::basic_string", "s": "std::string", "i": "std::istream",
    "o": "std::ostream", "d": "std::iostream",
}  # fmt: skip
#: Where the name of a variable of some type would stand, which pointers to functions and arrays have inside.
_DECLARED = "\0"
_UNNAMED = "_GLOBAL__N_"
_NUMBER = re.compile(r"[0-9]+")
_VALUE = re.compile(r"n?[0-9]+")
_SUBSTITUTION = re.compile(r"S([0-9A-Z]*)_")
_MOST_DEEP = 100


class _UnreadableError(Exception):
    """The name has a part that is not read."""


def function_name(mangled: str) -> str | None:
    """Return the name of a function with its template arguments; None where it cannot be read.

    >>> function_name("_ZN2ns6reduceIfLj256ELb1EEEvPT_"), function_name("_Z1fIZ4mainEUlvE_EvT_")
    ('ns::reduce<float, 256u, true>', None)
    """
    if not mangled.startswith("_Z"):
        return None
    try:
        return _plain(_Reader(mangled[2:]).name())
    except (_UnreadableError, IndexError):
        return None


def _plain(text: str) -> str:
    return text.replace(f"({_DECLARED})", "").replace(_DECLARED, "")


class _Reader:
    """Reads one mangled name from the left; each method reads what it is called after."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._known: list[str] = []
        self._deep = 0

    def name(self) -> str:
        """Read a name, nested or not."""
        if self._take("N"):
            return self._nested()
        if self._is("S") and not self._is("St"):
            found = self._substitution()
        elif self._is("Z"):
            raise _UnreadableError
        else:
            found = ("std::" if self._take("St") else "") + self._unqualified()
            if self._is("I"):
                self._known.append(found)
        return found + self._arguments() if self._is("I") else found

    def type(self) -> str:
        """Read a type."""
        self._deep += 1
        if self._deep > _MOST_DEEP:
            raise _UnreadableError
        found = self._builtin() or self._other_type()
        self._deep -= 1
        return found

    def _other_type(self) -> str:
        if self._is("S") and not self._is("St"):
            found = self._substitution()
            if not self._is("I"):
                return found
            found += self._arguments()
        else:
            found = self._composed()
        self._known.append(found)
        return found

    def _composed(self) -> str:
        begins: dict[str, Callable[[], str]] = {
            "P": lambda: self._pointing("*"), "R": lambda: self._pointing("&"), "O": lambda: self._pointing("&&"),
            "K": lambda: self._qualified("const"), "V": lambda: self._qualified("volatile"), "F": self._function,
            "A": self._array,
        }  # fmt: skip
        for letter, read in begins.items():
            if self._take(letter):
                return read()
        return self.name()

    def _builtin(self) -> str | None:
        for length in (1, 2, 5):
            word = self._text[self._place : self._place + length]
            if word in _BUILTIN:
                self._place += length
                return _BUILTIN[word]
        return None

    def _pointing(self, sign: str) -> str:
        to = self.type()
        return to.replace(_DECLARED, sign + _DECLARED) if _DECLARED in to else f"{to}{sign}"

    def _qualified(self, word: str) -> str:
        return f"{self.type()} {word}"

    def _function(self) -> str:
        self._take("Y")
        result = self.type()
        parameters = []
        while not self._take("E"):
            parameters.append(self.type())
        listed = ", ".join(each for each in parameters if each != "void")
        return f"{result} ({_DECLARED})({listed})"

    def _array(self) -> str:
        count = self._match(_NUMBER)
        if not self._take("_"):
            raise _UnreadableError
        return f"{self.type()} ({_DECLARED})[{count}]"

    def _nested(self) -> str:
        while self._is("K") or self._is("V") or self._is("r"):
            self._place += 1
        found, is_new = "", False
        while not self._take("E"):
            if self._is("I"):
                found += self._arguments()
            elif self._is("S") and not self._is("St"):
                found, is_new = self._substitution(), False
                continue
            elif self._take("St"):
                found = "std"
                continue
            else:
                own = self._unqualified()
                found = f"{found}::{own}" if found and own else found or own
            self._known.append(found)
            is_new = True
        if is_new:
            # The whole is no prefix of anything; where it is a type, whoever reads the type notes it.
            self._known.pop()
        return found

    def _unqualified(self) -> str:
        self._take("L")
        length = int(self._match(_NUMBER))
        found = self._text[self._place : self._place + length]
        if len(found) < length:
            raise _UnreadableError
        self._place += length
        while self._take("B"):
            self._place += int(self._match(_NUMBER))
        return "" if found.startswith(_UNNAMED) else found

    def _substitution(self) -> str:
        match = _SUBSTITUTION.match(self._text, self._place)
        if match is None:
            found = _STANDARD.get(self._text[self._place + 1])
            if found is None:
                raise _UnreadableError
            self._place += 2
            return found
        self._place = match.end()
        return self._known[int(match[1], 36) + 1 if match[1] else 0]

    def _arguments(self) -> str:
        self._place += 1
        found: list[str] = []
        while not self._take("E"):
            found += self._argument()
        return f"<{', '.join(map(_plain, found))}>"

    def _argument(self) -> list[str]:
        if self._take("J"):
            found: list[str] = []
            while not self._take("E"):
                found += self._argument()
            return found
        if self._take("L"):
            return [self._literal()]
        return [self.type()]

    def _literal(self) -> str:
        if self._is("_Z"):
            raise _UnreadableError
        letter = self._text[self._place]
        kind = self.type()
        value = self._match(_VALUE).replace("n", "-")
        if not self._take("E"):
            raise _UnreadableError
        if letter == "b":
            return "true" if value == "1" else "false"
        return value + _ENDING[letter] if letter in _ENDING else f"({kind}){value}"

    def _is(self, text: str) -> bool:
        return self._text.startswith(text, self._place)

    def _take(self, text: str) -> bool:
        found = self._is(text)
        self._place += len(text) if found else 0
        return found

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._place)
        if match is None:
            raise _UnreadableError
        self._place = match.end()
        return match[0]
