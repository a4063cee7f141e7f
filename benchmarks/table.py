"""Results as text."""

from collections.abc import Iterator, Sequence

from benchmarks.entry import OURS
from benchmarks.results import Result

HEADINGS = (
    *("entry", "unit", "ours", "spread", "beside", "figure", "spread"),
    *("times better", "bar", ""),
)
NUMBERS = {2, 3, 5, 6, 7, 8}


def table(results: Sequence[Result]) -> str:
    """Return aligned columns, one line for each pair of ours and another."""
    rows = [HEADINGS, *(row for result in results for row in _rows(result))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in NUMBERS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def shortfalls(results: Sequence[Result]) -> list[str]:
    """Return a line for each bar that was not reached."""
    return [
        f"{result.name}: {result.ratios[name]:.3f} times {name}, the bar is {bar:g}"
        for result in results
        if result.holds is not None
        for name, bar in result.bars.items()
        if result.ratios[name] < bar
    ]


def too_busy(results: Sequence[Result]) -> list[str]:
    """Return the entries without a verdict, because other programs kept the machine busy."""
    return [result.name for result in results if result.holds is None]


def _rows(result: Result) -> Iterator[tuple[str, ...]]:
    ours = (result.name, result.unit, shown(result.ours), _percent(result, OURS))
    if not result.beside:
        yield (*ours, "", "", "", "", "", "")
    for name, figure in result.beside.items():
        ratio, bar = result.ratios[name], result.bars.get(name)
        yield (
            *ours,
            name,
            shown(figure),
            _percent(result, name),
            f"{ratio:.2f}",
            "" if bar is None else f"{bar:g}",
            "" if bar is None else _verdict(result, is_reached=ratio >= bar),
        )


def _percent(result: Result, name: str) -> str:
    return f"{result.spread[name]:.0%}" if name in result.spread else ""


def _verdict(result: Result, *, is_reached: bool) -> str:
    if result.holds is None:
        return "machine busy"
    return "" if is_reached else "falls short"


def shown(figure: float) -> str:
    """Return a figure with the digits that are significant on a noisy machine."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
