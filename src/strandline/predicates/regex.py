"""Java regular expressions with the same meaning in RE2, whose time is linear in the text.

A pattern is parsed once, and rewritten for RE2 where the syntax differs. Forms that RE2
lacks, or that have another meaning there, are refused with an alternative.
"""

from typing import Final, NoReturn

from strandline.predicates.dialect import PATTERN_CHARS_MAX, REPETITIONS_MAX

_LINE_ENDS: Final = r"\n\r\x{85}\x{2028}\x{2029}"
# RE2's white space does not include the vertical tab.
_CLASSES: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\n\x0b\f\r"}
_SIGNS: Final = {"n": r"\n", "t": r"\t", "r": r"\r", "f": r"\f"}
_QUANTIFIERS: Final = "*+?"
_SPECIAL: Final = frozenset("\\^$.|?*+()[]{}")
_REFUSED: Final = {
    "b": "Java's versions differ on \\b, name the characters around the word",
    "B": "Java's versions differ on \\B, name the characters around the word",
    "Z": "write \\z",
    "Q": "write \\ before each special character",
    "p": "classes of Unicode are not part of the dialect, write [a-z]",
    "P": "classes of Unicode are not part of the dialect, write [^a-z]",
    "x": "write the character itself",
    "u": "write the character itself",
}


class Refused(ValueError):  # noqa: N818
    """The two engines would not interpret the pattern in the same way."""


def for_re2(pattern: str) -> str:
    """Return the pattern for RE2; Refused, with the reason, if there is none."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise Refused(f"a pattern has at most {PATTERN_CHARS_MAX} characters")
    return _Pattern(pattern).translated()


class _Pattern:
    """Reads one pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._found: list[str] = []
        self._open = 0
        #: Whether what was just read may be repeated.
        self._is_atom = False
        self._has_dollar = False
        self._may_be_return = False
        self._repetitions = 1

    def translated(self) -> str:
        while self._at < len(self._pattern):
            self._read(self._take())
        if self._open:
            self._refuse("a parenthesis is not closed")
        if self._has_dollar and self._may_be_return:
            self._refuse("in a pattern that can match \\r, write \\z instead of $")
        return "".join(self._found)

    def _take(self) -> str:
        if self._at == len(self._pattern):
            self._refuse("the pattern ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _read(self, sign: str) -> None:
        if sign == "\\":
            self._atom(self._escape())
        elif sign == "[":
            self._atom(self._class())
        elif sign == ".":
            self._atom(f"[^{_LINE_ENDS}]")
        elif sign in _QUANTIFIERS or sign == "{":
            self._quantifier(sign)
        elif sign == "(":
            self._group()
        elif sign == ")":
            self._close()
        elif sign in "|^":
            self._found.append("^" if sign == "^" else "|")
            self._is_atom = False
        elif sign == "$":
            self._dollar()
        else:
            self._atom(_quoted(sign))

    def _atom(self, translated: str) -> None:
        self._found.append(translated)
        self._is_atom = bool(translated) and translated not in {"\\A", "\\z"}

    def _escape(self) -> str:
        sign = self._take()
        if sign in _CLASSES:
            self._may_be_return |= sign == "s"
            return f"[{_CLASSES[sign]}]"
        if sign.lower() in _CLASSES:
            self._may_be_return |= sign != "S"
            return f"[^{_CLASSES[sign.lower()]}]"
        if sign in _SIGNS:
            self._may_be_return |= sign == "r"
            return _SIGNS[sign]
        if sign in "Az":
            return f"\\{sign}"
        self._check_escape(sign)
        return _quoted(sign)

    def _check_escape(self, sign: str) -> None:
        if sign.isdigit():
            self._refuse("back-references are not part of the dialect")
        if sign.isalpha():
            self._refuse(_REFUSED.get(sign, f"\\{sign} is not part of the dialect"))

    def _class(self) -> str:
        is_negated = self._next() == "^"
        if is_negated:
            self._take()
            self._may_be_return = True
        parts: list[str] = []
        while not parts or self._next() != "]":
            sign = self._take()
            if sign == "]" or (sign == "[" or (sign == "&" and self._next() == "&")):
                self._refuse("write \\[ or \\] in a class; classes cannot be nested or intersected")
            if sign != "\\":
                parts.append("-" if sign == "-" else _quoted(sign))
                self._may_be_return |= sign == "\r"
                continue
            escaped = self._take()
            if escaped in _CLASSES:
                self._may_be_return |= escaped == "s"
                parts.append(_CLASSES[escaped])
            elif escaped in _SIGNS:
                self._may_be_return |= escaped == "r"
                parts.append(_SIGNS[escaped])
            elif escaped.isalnum():
                self._refuse("this escape is not allowed in a class")
            else:
                parts.append(_quoted(escaped))
        self._take()
        self._check_range(parts)
        return f"[{'^' * is_negated}{''.join(parts)}]"

    def _check_range(self, parts: list[str]) -> None:
        for at, part in enumerate(parts):
            is_sign = part == "-" and 0 < at < len(parts) - 1
            if not is_sign:
                if part == "-":
                    parts[at] = _quoted("-")
                continue
            low, high = parts[at - 1], parts[at + 1]
            is_range = all(_single(each) is not None for each in (low, high))
            if not is_range or _single(low) > _single(high):  # type: ignore[operator]
                self._refuse("a range in a class goes from one character to a later one")

    def _quantifier(self, sign: str) -> None:
        if not self._is_atom:
            self._refuse("there is nothing to repeat before this")
        self._is_atom = False
        if sign != "{":
            self._found.append(sign)
        else:
            self._found.append(self._counted())
        if self._next() == "+":
            self._refuse("possessive quantifiers are not part of the dialect")
        if self._next() == "?":
            self._found.append(self._take())

    def _counted(self) -> str:
        end = self._pattern.find("}", self._at)
        low, comma, high = self._pattern[self._at : max(end, self._at)].partition(",")
        if end < 0 or not low.isdigit() or not (high == "" or high.isdigit()) or not low.isascii():
            self._refuse("write {2}, {2,} or {2,5}, and \\{ for the character itself")
        self._at = end + 1
        most = int(high or low)
        self._repetitions *= max(most, 1)
        if most < int(low) or self._repetitions > REPETITIONS_MAX:
            self._refuse(f"repetitions multiply to at most {REPETITIONS_MAX}")
        return f"{{{low}{comma}{high}}}"

    def _group(self) -> None:
        if self._next() == "?":
            if self._pattern[self._at : self._at + 2] != "?:":
                self._refuse(
                    "flags, named groups and lookarounds are not part of the dialect; "
                    "(?:…) is, and ILIKE ignores case"
                )
            self._at += 2
        self._open += 1
        self._found.append("(?:")
        self._is_atom = False

    def _close(self) -> None:
        if not self._open:
            self._refuse("this parenthesis has no opening one")
        self._open -= 1
        self._found.append(")")
        self._is_atom = True

    def _dollar(self) -> None:
        if self._next() not in {"", ")", "|"}:
            self._refuse("$ is only allowed at the end; \\$ is the character")
        # In Java, one line end may follow.
        self._found.append(rf"(?:\r\n|[{_LINE_ENDS}])?\z")
        self._has_dollar = True
        self._is_atom = False

    def _refuse(self, reason: str) -> NoReturn:
        raise Refused(f"{reason}; at {max(self._at - 1, 0)} of the pattern")


def _quoted(sign: str) -> str:
    return sign if sign.isascii() and sign.isalnum() else rf"\x{{{ord(sign):x}}}"


def _single(part: str) -> int | None:
    """Return the code of the single character of a part of a class."""
    if part.startswith("\\x{"):
        return int(part[3:-1], 16)
    if len(part) == 1 and part != "-":
        return ord(part)
    return {r"\n": 10, r"\t": 9, r"\r": 13, r"\f": 12}.get(part)
