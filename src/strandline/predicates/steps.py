"""Steps into a value, and their form in Spark."""

import re
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")

Path = tuple[str | int, ...]
"""Names of fields, keys of maps and positions in arrays, from outer to inner."""


def spark_path(steps: Path) -> str | None:
    """Return the path for `variant_get`; None if it cannot express one of the steps."""
    found = ["$"]
    for step in steps:
        if isinstance(step, int):
            found.append(f"[{step}]")
        elif _PLAIN.match(step):
            found.append(f".{step}")
        else:
            # Spark's own grammar has no name with a question mark, and no escape in it.
            quote = next((each for each in ('"', "'") if each not in step), None)
            if not step or quote is None or "?" in step:
                return None
            found.append(f"[{quote}{step}{quote}]")
    return "".join(found)


def shown_path(name: str, steps: Path) -> str:
    """Return a path in the form of predicates, for messages."""
    shown = [name]
    for step in steps:
        if isinstance(step, int):
            shown.append(f"[{step}]")
        else:
            shown.append(f".{step}" if _PLAIN.match(step) else f".`{step}`")
    return "".join(shown)
