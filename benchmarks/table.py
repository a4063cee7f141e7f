"""Results as text."""

from collections.abc import Iterator, Sequence

from benchmarks.results import Result

HEADINGS = ("entry", "unit", "ours", "beside", "figure", "times better", "bar", "")
NUMBERS = {2, 4, 5, 6}


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
    """Return a line for each bar that falls short."""
    return [
        f"{result.name}: {result.ratios[name]:.3f} times {name}, the bar is {bar:g}"
        for result in results
        for name, bar in result.bars.items()
        if result.ratios[name] < bar
    ]


def _rows(result: Result) -> Iterator[tuple[str, ...]]:
    if not result.beside:
        yield (result.name, result.unit, shown(result.ours), "", "", "", "", "")
    for name, figure in result.beside.items():
        ratio, bar = result.ratios[name], result.bars.get(name)
        yield (
            result.name,
            result.unit,
            shown(result.ours),
            name,
            shown(figure),
            f"{ratio:.2f}",
            "" if bar is None else f"{bar:g}",
            "" if bar is None or ratio >= bar else "falls short",
        )


def shown(figure: float) -> str:
    """Return a figure with as many digits as a noisy machine can mean."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
