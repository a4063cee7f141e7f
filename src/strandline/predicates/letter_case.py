"""Upper and lower case as in Spark: all of Unicode 17, with any version of Python."""

from typing import Final

# Pairs of upper and lower letters that are newer than the Unicode of Python 3.11: first
# upper, first lower, number of consecutive pairs.
_NEWER: Final = (
    (0x1C89, 0x1C8A, 1),
    (0xA7CB, 0x0264, 1),
    (0xA7CC, 0xA7CD, 1),
    (0xA7CE, 0xA7CF, 1),
    (0xA7D2, 0xA7D3, 1),
    (0xA7D4, 0xA7D5, 1),
    (0xA7DA, 0xA7DB, 1),
    (0xA7DC, 0x019B, 1),
    (0x10D50, 0x10D70, 22),
    (0x16EA0, 0x16EBB, 25),
)
_LOWER: Final = {upper + at: lower + at for upper, lower, count in _NEWER for at in range(count)}
_UPPER: Final = {lower: upper for upper, lower in _LOWER.items()}


def lowered(text: str) -> str:
    """Return the text in lower case."""
    return text.lower().translate(_LOWER)


def uppered(text: str) -> str:
    """Return the text in upper case."""
    return text.upper().translate(_UPPER)


def survives_recasing(text: str) -> bool:
    """Whether a change of case has the same result with and without another one before it."""
    return lowered(uppered(text)) == lowered(text) and uppered(lowered(text)) == uppered(text)
