"""Ranks design notes after other pages in the site's search. mkdocs calls `on_page_markdown`."""

from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lower the score of a design note: who searches a word first wants to know how to use it."""
    if page.file.src_uri.startswith("design/"):
        page.meta["search"] = {"boost": 0.1}
    return markdown
