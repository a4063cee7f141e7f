"""Small HTML tables for notebooks, with escaped content."""

from collections.abc import Mapping, Sequence
from html import escape

ROWS_MAX = 10
"""The maximum number of rows shown."""
_SHOWN_CHARS_MAX = 200


def html_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[object]], *, count: int = 0
) -> str:
    """Return a table of the first rows with a title; `count` is the number of all rows."""
    more = max(count, len(rows)) - min(len(rows), ROWS_MAX)
    head = "".join(f"<th>{_escaped(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:ROWS_MAX]
    )
    rest = f"<div>and {more:,} more</div>" if more else ""
    return (
        f"<div><strong>{_escaped(title)}</strong>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}</div>"
    )


def html_fields(title: str, fields: Mapping[str, object]) -> str:
    """Return names with their values under a title."""
    rows = "".join(
        f"<tr><th>{_escaped(name)}</th><td>{_escaped(value)}</td></tr>"
        for name, value in fields.items()
    )
    return f"<div><strong>{_escaped(title)}</strong><table><tbody>{rows}</tbody></table></div>"


def _escaped(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    text = str(value)
    if len(text) > _SHOWN_CHARS_MAX:
        text = text[:_SHOWN_CHARS_MAX] + "…"
    shown = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
    return escape(shown)
