"""Draws docs/images/idea.svg, a topic and its readers, from the lines of docs/images/idea.txt.

    python -m tools.idea_picture

A line is a keyword and its arguments: `log NAME RECORDS`, `cursor OFFSET TEXT`, `append TEXT`,
`hint TEXT`. A test compares the picture with the text.
"""

from collections.abc import Iterator
from html import escape
from pathlib import Path

TEXT = Path(__file__).parents[1] / "docs" / "images" / "idea.txt"
PICTURE = TEXT.with_suffix(".svg")
_LEFT, _TOP, _CELL, _STEP = 30, 64, 58, 34
_WIDTH, _LETTER = 760, 7
_STYLE = """\
  <style>
    text { font: 14px system-ui, sans-serif; fill: #263238 }
    .cell { fill: #e0f2f1; stroke: #00796b } .next { fill: none; stroke-dasharray: 4 3 }
    .offset { text-anchor: middle; font-family: monospace } .quiet { fill: #607d8b }
    path { fill: none; stroke: #00796b; stroke-width: 1.5 }
    @media (prefers-color-scheme: dark) {
      text { fill: #eceff1 } .cell { fill: #004d40 } .next { fill: none } .quiet { fill: #90a4ae }
    }
  </style>"""


def picture(text: str) -> str:
    """Return the picture of a text."""
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    said = {word: rest for word, rest in lines if word != "cursor"}
    name, count = said["log"].split()
    cursors = [rest.split(maxsplit=1) for word, rest in lines if word == "cursor"]
    height = _TOP + _CELL + _STEP * (len(cursors) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"  <title>The topic {escape(name)} and its readers, each a cursor</title>",
        _STYLE,
        *_cells(name, int(count)),
        _label(_LEFT + int(count) * _CELL - 150, _TOP - 12, said["append"], "quiet"),
        *_cursors(cursors),
        _label(_LEFT, height - 14, said["hint"], "quiet"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _cells(name: str, count: int) -> Iterator[str]:
    yield _label(_LEFT, _TOP - 12, f"topic {name}, one partition")
    for offset in range(count + 1):
        kind = "cell" if offset < count else "cell next"
        x = _LEFT + offset * _CELL
        yield f'  <rect class="{kind}" x="{x}" y="{_TOP}" width="{_CELL}" height="{_CELL - 18}"/>'
        yield _label(x + _CELL // 2, _TOP + 25, str(offset), "offset")


def _cursors(cursors: list[list[str]]) -> Iterator[str]:
    bottom = _TOP + _CELL - 18
    for number, (offset, text) in enumerate(cursors):
        x = _LEFT + int(offset) * _CELL
        y = bottom + _STEP * (len(cursors) - number)
        yield f'  <path d="M{x} {y} V{bottom + 4} m-5 8 l5 -8 l5 8"/>'
        is_far = x + 10 + _LETTER * len(text) > _WIDTH
        anchor = ' text-anchor="end"' if is_far else ""
        yield f'  <text x="{x + (-10 if is_far else 10)}" y="{y}"{anchor}>{escape(text)}</text>'


def _label(x: int, y: int, text: str, kind: str = "") -> str:
    word = f' class="{kind}"' if kind else ""
    return f'  <text{word} x="{x}" y="{y}">{escape(text)}</text>'


def main() -> None:
    PICTURE.write_text(picture(TEXT.read_text()))
    print(f"Wrote {PICTURE.name}.")


if __name__ == "__main__":
    main()
