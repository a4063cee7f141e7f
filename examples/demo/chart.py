"""Throughput and lag over the run, as a PNG and in the terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from PIL import Image, ImageDraw, ImageFont

from examples.demo.gauges import Sample

_SIZE = (920, 520)
_SCALE = 2
_LEFT, _RIGHT, _TOP, _GAP, _BOTTOM = 80, 34, 70, 60, 40
_INK, _PALE, _LINE = "#22303c", "#7b8894", "#dde3e8"
COLOURS = {
    "appended": "#1b6ca8",
    "tail": "#2a9d5c",
    "view": "#8a5fbf",
    "trigger": "#d98b1f",
    "Spark": "#c8452f",
}
_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT = 72, 4


@dataclass(frozen=True, slots=True)
class Frame:
    """Where curves are drawn: from this line upwards, to this value."""

    floor: float
    height: float
    most: float


@dataclass(frozen=True, slots=True)
class Curves:
    """What is drawn: a value at each moment, for each name."""

    at_s: Sequence[float]
    rate: Sequence[float]
    lags: Mapping[str, Sequence[int]]
    marks: Sequence[tuple[float, str]]


def curves(samples: Sequence[Sample], marks: Sequence[tuple[float, str]]) -> Curves:
    """Return the curves of a run."""
    rates = [
        max(0.0, (after.appended - before.appended) / max(1e-6, after.at_s - before.at_s))
        for before, after in pairwise(samples)
    ]
    names = samples[0].lags
    lags = {name: [sample.lags[name] for sample in samples] for name in names}
    return Curves([sample.at_s for sample in samples], [0.0, *rates], lags, marks)


def save_png(found: Curves, path: str, title: str) -> None:
    """Draw the run."""
    canvas = _Canvas(found.at_s[-1])
    canvas.text((_LEFT, 12), title, _INK, 17)
    height = (_SIZE[1] - _TOP - _GAP - _BOTTOM) // 2
    most = max((max(values) for values in found.lags.values()), default=0)
    upper = Frame(_TOP + height, height, max(found.rate))
    lower = Frame(_TOP + 2 * height + _GAP, height, most)
    canvas.axes(upper, "events/s appended")
    canvas.axes(lower, "records behind")
    for at_s, text in found.marks:
        canvas.mark(at_s, text, lower.floor)
    canvas.curve(upper, found.at_s, found.rate, COLOURS["appended"])
    for place, (name, values) in enumerate(reversed([*found.lags.items()])):
        canvas.curve(lower, found.at_s, values, COLOURS[name])
        at = (_SIZE[0] - 90 * (place + 1), lower.floor - height - 20)
        canvas.text(at, name, COLOURS[name], 13)
    canvas.save(path)


class _Canvas:
    """A picture whose lower edge is time, drawn twice as large for smooth lines."""

    def __init__(self, ends_s: float) -> None:
        self._ends_s = max(ends_s, 1e-6)
        self._image = Image.new("RGB", (_SIZE[0] * _SCALE, _SIZE[1] * _SCALE), "white")
        self._draw = ImageDraw.Draw(self._image)

    def _x(self, at_s: float) -> float:
        return _LEFT + (_SIZE[0] - _LEFT - _RIGHT) * at_s / self._ends_s

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: int = 1) -> None:
        scaled = [(x * _SCALE, y * _SCALE) for x, y in points]
        self._draw.line(scaled, colour, width * _SCALE, joint="curve")

    def text(
        self, at: tuple[float, float], text: str, colour: str, size: int, *, anchor: str = "la"
    ) -> None:
        font = ImageFont.load_default(size * _SCALE)
        place = (at[0] * _SCALE, at[1] * _SCALE)
        self._draw.text(place, text, colour, font, anchor=anchor)

    def axes(self, frame: Frame, name: str) -> None:
        for step in range(3):
            y = frame.floor - frame.height * step / 2
            self.line([(_LEFT, y), (_SIZE[0] - _RIGHT, y)], _LINE)
            self.text((_LEFT - 8, y), f"{frame.most * step / 2:,.0f}", _PALE, 12, anchor="rm")
        self.text((_LEFT, frame.floor - frame.height - 20), name, _INK, 13)
        for step in range(6):
            at_s = self._ends_s * step / 5
            self.text((self._x(at_s), frame.floor + 6), f"{at_s:.0f} s", _PALE, 12, anchor="ma")

    def mark(self, at_s: float, text: str, floor: float) -> None:
        x = self._x(at_s)
        for y in range(_TOP, round(floor), 8):
            self.line([(x, y), (x, y + 4)], _PALE)
        self.text((x + 4, _TOP - 2), text, _INK, 11)

    def curve(
        self, frame: Frame, at_s: Sequence[float], values: Sequence[float], colour: str
    ) -> None:
        top = max(frame.most, 1)
        points = [
            (self._x(at), frame.floor - frame.height * value / top)
            for at, value in zip(at_s, values, strict=True)
        ]
        self.line(points, colour, 2)

    def save(self, path: str) -> None:
        small = self._image.resize(_SIZE, Image.Resampling.LANCZOS)
        small.save(path, optimize=True)


def in_terminal(found: Curves) -> list[tuple[str, str]]:
    """Return lines of the same picture, each with its colour; '' is none."""
    lines: list[tuple[str, str]] = []
    shown: dict[str, Sequence[float]] = {"appended": found.rate}
    shown |= {name: found.lags[name] for name in ("tail", "Spark")}
    for name, values in shown.items():
        unit = "events/s appended" if name == "appended" else f"records behind: {name}"
        heights = _columns(found.at_s, values)
        most = max(heights)
        lines.append((f"{unit}, at most {most:,.0f}", ""))
        for row in reversed(range(_HEIGHT)):
            cells = [_block(value / max(most, 1) * _HEIGHT - row) for value in heights]
            lines.append((f"│{''.join(cells)}", COLOURS[name]))
        lines.append((f"└{'─' * _WIDTH}", ""))
    lines.append((_ruler(found), ""))
    return lines


def _columns(at_s: Sequence[float], values: Sequence[float]) -> list[float]:
    """Return the highest value of each column of the terminal; one without any repeats."""
    columns: list[list[float]] = [[] for _ in range(_WIDTH)]
    for at, value in zip(at_s, values, strict=True):
        columns[min(_WIDTH - 1, int(at / at_s[-1] * _WIDTH))].append(value)
    last = 0.0
    heights = []
    for column in columns:
        last = max(column, default=last)
        heights.append(last)
    return heights


def _block(height: float) -> str:
    return _BLOCKS[round(min(1.0, max(0.0, height)) * (len(_BLOCKS) - 1))]


def _ruler(found: Curves) -> str:
    ends_s = found.at_s[-1]
    cells = [" "] * (_WIDTH + 1)
    for at_s, text in found.marks:
        cells[min(_WIDTH, 1 + int(at_s / ends_s * _WIDTH))] = text[0].upper()
    legend = ", ".join(f"{text[0].upper()} {text} at {at_s:.0f} s" for at_s, text in found.marks)
    return f"{''.join(cells).rstrip()}\n 0 to {ends_s:.0f} s; {legend}"
