"""Short reprs of objects, in one line."""

from collections.abc import Iterable, Mapping

SHOWN_MAX = 8
"""How many entries of a collection are shown."""

_CHARS_MAX = 80


def prompt_text(kind: str, *parts: object, **fields: object) -> str:
    """Return `Kind(part, name=value)`; a field that is True is its bare name.

    Fields that are None or False are left out.
    """
    shown = [repr(part) for part in parts]
    for name, value in fields.items():
        if value is True:
            shown.append(name)
        elif value is not None and value is not False:
            shown.append(f"{name}={value!r}")
    return f"{kind}({', '.join(shown)})"


class Shown(str):
    """Text that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def few(items: Iterable[object]) -> Shown:
    """Return the first entries of a collection, and the number of the others."""
    each = list(items)
    return Shown(f"[{_joined([repr(item) for item in each[:SHOWN_MAX]], len(each))}]")


def few_pairs(pairs: Mapping[str, object]) -> Shown:
    """Return the first entries of a mapping, and the number of the others."""
    shown = [f"{key}: {value!r}" for key, value in list(pairs.items())[:SHOWN_MAX]]
    return Shown(f"{{{_joined(shown, len(pairs))}}}")


def shortened(value: object) -> Shown:
    """Return the `repr` of a value, shortened if it is long."""
    text = repr(value[: _CHARS_MAX * 2] if isinstance(value, bytes) else value)
    return Shown(text if len(text) <= _CHARS_MAX else f"{text[:_CHARS_MAX]}…")


def _joined(shown: list[str], count: int) -> str:
    if (more := count - len(shown)) > 0:
        shown = [*shown, f"… {more:,} more"]
    return ", ".join(shown)
