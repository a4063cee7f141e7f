"""A check of accessibility: axe-core, in the page itself."""

from importlib.resources import files
from typing import Any

import pytest


def problems_of(page: Any) -> list[str]:
    """Return what keeps some people from using a page as it is now."""
    pytest.importorskip("axe_playwright_python")
    if not page.evaluate("'axe' in window"):
        page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html'][:120]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
