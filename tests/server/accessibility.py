"""A check of accessibility, by what a browser has made of a page: names, roles, ids, headings
and contrast."""

from pathlib import Path
from typing import Any

_CHECK = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def problems_of(page: Any) -> list[str]:
    """Return what keeps some people from using a page as it is now."""
    found: list[str] = page.evaluate(_CHECK)
    return found
