"""Statistics of the fields of payloads: objects are skipped, and never a record that matches."""

import random
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import parts_of
from strandline.predicates import event_columns, parse_predicate
from strandline.spark.source.reading import reading_of
from strandline.subscriptions.screening import EventScreen
from strandline.tiering import cold_selecting, copying, field_statistics, refuting
from strandline.tiering.field_statistics import TEXT_MAX, DeclaredFields, FieldBounds, unpacked
from strandline.tiering.footer import Footer
from tests.planting import Bug
from tests.tiering.faulty_store import FaultyObjects
from tests.tiering.tiered import LogOver, move, opened

DECLARED = pa.schema(
    {
        "n": pa.int64(),
        "small": pa.int8(),
        "x": pa.float64(),
        "price": pa.decimal128(20, 2),
        "name": pa.string(),
        "on": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us", tz="UTC"),
        "in": pa.struct({"deep": pa.int64(), "odd?name": pa.int64()}),
        "many": pa.list_(pa.int64()),
        "any": pa.json_(),
    }
)
LONG = "p" * (TEXT_MAX + 6)
NUMBERS: list[Any] = [
    *(0, 1, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**70, 127, 128),
    *(0.5, -0.0, 1e308, 99.995, 100.0, "12", "NaN", "-Infinity", "x", True, None, [], {}),
]
TEXTS = [
    *("", "a", "b", "é", "\uffff", "\U0010ffff", "\U0010ffff" * (TEXT_MAX + 1)),
    *(LONG + "a", LONG + "b", LONG, "p" * (TEXT_MAX - 1) + "\ud7ff" + "zz", 7, None, True),
]
DAYS = ["2024-02-29", "0001-01-01", "9999-12-31", "2024-2-3", "soon", 5, None]
TIMES = ["2024-02-29T12:00:00.000001Z", "1969-12-31T23:59:59.999999Z", "9999-12-31", "x", None]


def payload(chosen: random.Random, level: int) -> dict[str, Any]:
    """Return a payload; those of one level are near each other, so that objects differ."""
    near = [level * 10 + chosen.randrange(10) for _ in range(4)]
    found: dict[str, Any] = {
        "n": chosen.choice([near[0], *NUMBERS]) if level % 3 == 0 else near[0],
        "small": chosen.choice(NUMBERS),
        "x": chosen.choice(NUMBERS) if level % 4 == 0 else near[1] / 4,
        "price": chosen.choice(NUMBERS) if level % 5 == 0 else near[2] / 8,
        "name": chosen.choice(TEXTS) if level % 2 else f"{LONG}{near[3]}",
        "on": level % 2 == 0 if level % 3 else chosen.choice([True, False, None, "true"]),
        "day": chosen.choice(DAYS) if level % 2 else f"20{near[0] % 90 + 10}-01-01",
        "at": chosen.choice(TIMES) if level % 2 else f"20{near[0] % 90 + 10}-01-01T00:00:00Z",
        "in": chosen.choice([{"deep": near[0]}, {"deep": None}, 5, {"odd?name": 1}]),
        "many": near,
        "any": chosen.choice(NUMBERS),
    }
    return {key: value for key, value in found.items() if chosen.random() < 0.9}


LITERALS: dict[str, list[str]] = {
    "n": ["0", "19", "65", "9007199254740993", "9223372036854775807", "64.5", "1e3"],
    "small": ["0", "127", "-1", "128"],
    "x": ["12.25", "200.5", "1e308", "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "7"],
    "price": ["99.99", "100.00", "12.375", "0", "5"],
    "name": ["'a'", "''", f"'{LONG}65'", f"'{LONG}b'", "'\U0010ffff'", f"'{LONG[:-2]}'"],
    "on": ["TRUE", "FALSE"],
    "day": ["DATE '2024-02-29'", "DATE '0001-01-01'", "DATE '2060-01-01'"],
    "at": ["TIMESTAMP '2024-02-29 12:00:00.000001'", "TIMESTAMP '2070-01-01 00:00:00'"],
    "in.deep": ["7", "65", "100"],
}


def texts(*names: str) -> Iterator[str]:
    for name, literals in LITERALS.items():
        if names and name not in names:
            continue
        for text in literals:
            for sign in ("=", "<", "<=", ">", ">="):
                yield f"payload.{name} {sign} {text}"
        yield f"payload.{name} IN ({literals[0]}, {literals[-1]})"
        yield f"payload.{name} IS NULL"
        yield f"payload.{name} IS NOT NULL AND kind = 'k3'"
    for start in ("a", LONG, LONG + "6", "\U0010ffff", "q", ""):
        yield f"startswith(payload.name, '{start}')"
    yield "payload.many[0] > 60 AND payload.n > 60"
    yield "payload.any = 7 OR payload.n = 65"


def filled(folder: Path, backend: str = "memory") -> LogOver:
    """Return a log whose records, but for the last few, lie in small cold objects."""
    chosen = random.Random(19112)
    log = opened(backend, folder, FaultyObjects())
    log.create_topic("t", payload_schema=DECLARED)
    for level in range(12):
        payloads = [payload(chosen, level) for _ in range(7)]
        if level == 1:
            payloads[0] |= {"n": 19, "x": "NaN"}
        log.append_many("t", [sl.Event(f"k{level}", each) for each in payloads])
    move(log)
    log.append_many("t", [sl.Event("hot", payload(chosen, 3)) for _ in range(5)])
    return log


def differences(log: LogOver, *names: str, every: int = 1) -> Iterator[str]:
    """Yield the predicates of which a scan, or a subscription, skips a record that matches."""
    records = list(log.read("t", 0, 0))
    for number, text in enumerate([*texts(*names)][::every]):
        screen = EventScreen(text, 0, DECLARED)
        expected = [each.offset for each in screen.sift(records) if isinstance(each, sl.Record)]
        if (scanned, subscribed)[number % 2](log, text) != expected:
            yield text


def scanned(log: sl.Log, text: str) -> list[int]:
    found: list[int] = log.scan("t", where=text, columns=["_offset"]).to_table()[0].to_pylist()
    return found


def subscribed(log: sl.Log, text: str) -> list[int]:
    found = []
    with log.subscribe("t", where=text, read_ahead=7) as records:
        while (record := records.next(timeout_s=0)) is not None:
            found.append(int(record.offset))
    return found


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogOver]:
    with filled(tmp_path) as opened_log:
        yield opened_log


@pytest.mark.slow
def test_no_record_that_matches_is_skipped(log: LogOver) -> None:
    assert not [*differences(log)]


def calls(log: LogOver) -> int:
    """Return how many objects were fetched whole since the last time."""
    objects: Any = log.objects
    count: int = objects.calls.count("get")
    objects.calls.clear()
    return count


@pytest.mark.parametrize(
    ("where", "objects"),
    [
        ("payload.n = 25", 1),
        ("payload.n >= 105 AND payload.n < 200", 2),
        ("payload.x > CAST(24 AS DOUBLE)", 2),
        ("payload.day = DATE '2042-01-01'", 1),
        ("payload.in.deep BETWEEN 111 AND 119", 1),
        ("payload.n = 25 AND kind = 'none'", 0),
        (f"payload.name = '{LONG}45'", 1),
    ],
)
def test_what_statistics_of_fields_refute_is_not_fetched(
    tmp_path: Path, where: str, objects: int
) -> None:
    with opened("memory", tmp_path, FaultyObjects()) as log:
        log.create_topic("t", payload_schema=DECLARED)
        for level in range(12):
            events = []
            for near in range(level * 10, level * 10 + 7):
                more = {"day": f"20{near % 90 + 10}-01-01", "in": {"deep": near}}
                values = {"n": near, "x": near / 4, "name": f"{LONG[:20]}{near:03}", **more}
                values["name"] = f"{LONG}{near}" if level == 4 else f"q{near}"
                events.append(sl.Event("k", values))
            log.append_many("t", events)
        move(log)
        calls(log)

        list(log.scan("t", where=where, columns=["_offset"]))

        assert calls(log) == objects


def test_a_subscription_over_cold_objects_fetches_those_that_may_match(log: LogOver) -> None:
    calls(log)

    assert subscribed(log, "payload.in.deep > 113 AND kind = 'k11'")

    # The first page is read before the store is asked; levels of mixed values may match.
    assert calls(log) <= 3


def test_the_source_of_spark_skips_the_same_objects(tmp_path: Path) -> None:
    with filled(tmp_path, "file") as log:
        planned = reading_of(
            {
                "path": f"file:{tmp_path / 'log'}",
                "subscribe": "t",
                "predicate": "payload.in.deep = 111",
            }
        )
        records = list(log.read("t", 0, 0))
        matching = {each.offset for each in records if _deep(each) == 111}

        runs = list(planned.skipping.kept(log, (log.topic("t"), 0), 0, len(records)))

        kept = {offset for start, end in runs for offset in range(start, end)}
        assert matching <= kept
        assert len(kept) < len(records) / 2


def _deep(record: sl.Record) -> object:
    within = record.payload.get("in")
    return within.get("deep") if isinstance(within, dict) else None


def test_objects_without_statistics_of_fields_are_read_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that an earlier version wrote, and those of topics that declared nothing then."""
    monkeypatch.setattr(copying, "with_fields", lambda table, about, declared: (table, about))
    with filled(tmp_path) as log:
        assert not [*differences(log, every=19)]


def test_an_earlier_version_reads_what_an_object_says_of_itself(log: LogOver) -> None:
    """It knows no bounds of fields, and passes over them."""

    class EarlierAbout(msgspec.Struct):
        rows: int
        digest: str

    objects: Any = log.objects
    name = next(each for each in objects.objects if each.endswith(".parquet"))
    footer = Footer(objects.objects[name])
    packed = footer._metadata.metadata[b"strandline"]  # noqa: SLF001

    assert b"payload$.n:BIGINT" in packed
    assert msgspec.json.decode(packed, type=EarlierAbout).rows == footer.rows


def test_only_the_type_that_bounds_are_of_is_looked_up(log: LogOver) -> None:
    """A predicate that takes the field as another type sees other values."""
    footer = next(_footers(log))

    assert footer.field_statistics(0, "payload$.n:BIGINT", pa.int64()) is not None
    assert footer.field_statistics(0, "payload$.n:STRING", pa.string()) is None
    (bound,) = parse_predicate("payload.n = 25", event_columns(DECLARED)).bounds
    assert (bound.column, bound.type) == ("payload$.n:BIGINT", pa.int64())
    other = parse_predicate("payload.n = '25'", event_columns()).bounds
    assert [each.column for each in other] == ["payload$.n:STRING"]


def _footers(log: LogOver) -> Iterator[Footer]:
    tier: Any = parts_of(log).tier
    for _, _, footer in tier.footers(log.topic("t"), 0, 0, 84):
        assert footer is not None
        yield footer


def test_bounds_that_do_not_fit_the_object_say_nothing(
    log: LogOver, monkeypatch: pytest.MonkeyPatch
) -> None:
    footer = next(_footers(log))
    for odd in ([], [FieldBounds(0, 0, "text", "text")], [FieldBounds(0, 0, True, 5)]):
        about = msgspec.structs.replace(footer._about, fields={"f": odd})  # noqa: SLF001
        monkeypatch.setattr(footer, "_about", about)
        found = footer.field_statistics(0, "f", pa.int64())
        assert found is None or found.low is None


@pytest.mark.parametrize(
    ("arrow", "values", "expected"),
    [
        (pa.float64(), [1.5, "NaN", None], (1, 1, 1.5, 1.5)),
        (pa.float64(), ["Infinity", 2.0], (0, 0, None, None)),
        (pa.int64(), [2**63 - 1, 2**63, "5", 1.0], (1, 0, 1, 2**63 - 1)),
        (pa.string(), [LONG + "a", "\U0010ffff" * 99], (0, 0, LONG[:TEXT_MAX], None)),
        (pa.string(), [LONG + "a"], (0, 0, LONG[:TEXT_MAX], LONG[: TEXT_MAX - 1] + "q")),
        (pa.decimal128(6, 2), ["1.005", 99], (0, 0, "1.01", "99.00")),
        (pa.bool_(), [True, "x"], (1, 0, True, True)),
    ],
)
def test_the_bounds_of_a_field(arrow: Any, values: list[Any], expected: tuple[Any, ...]) -> None:
    payloads = pa.array([msgspec.json.encode({"f": each}).decode() for each in values])

    fields = DeclaredFields(pa.schema({"f": arrow}), payloads)
    ((found,),) = fields.bounds([(0, len(payloads))]).values()

    if expected[2] is not None and expected[3] is None:
        expected = (*expected[:2], None, None)
    assert (found.nulls, found.nans, found.low, found.high) == expected


def test_bounds_come_back_as_python_has_them() -> None:
    at = pa.timestamp("us", tz="UTC")
    assert unpacked(-1, at) == datetime.fromisoformat("1969-12-31T23:59:59.999999Z")
    assert unpacked("1.50", pa.decimal128(5, 2)) == Decimal("1.50")
    assert unpacked(10**18, at) is None


def test_a_declaration_of_many_fields_keeps_footers_small(tmp_path: Path) -> None:
    declared = pa.schema({f"f{number}": pa.int64() for number in range(1_000)})
    with opened("memory", tmp_path, FaultyObjects()) as log:
        log.create_topic("t", payload_schema=declared)
        log.append("t", sl.Event("k", {f"f{number}": number for number in range(1_000)}))
        move(log)

        footer = next(_footers(log))

        assert len(footer._about.fields or {}) == field_statistics.FIELDS_MAX  # noqa: SLF001
        assert subscribed(log, "payload.f999 = 999") == [0]


BUGS = [
    (
        Bug("a long text is its upper bound", field_statistics, "_shortened", "not is_high", "1"),
        "name",
    ),
    (Bug("NaN is not counted", field_statistics, "_bounds", "is_nan.true_count", "0"), "x"),
    (Bug("nulls are forgotten", field_statistics, "_bounds", "column.null_count", "0"), "in.deep"),
    (
        Bug("the greatest is the least", field_statistics, "_bounds", "ends['max']", "ends['min']"),
        "n",
    ),
    (
        Bug("a value is left out", field_statistics, "_bounds", "_.drop_null()", "_[1:]"),
        "n",
    ),
    (Bug("a bound is excluded", refuting, "_is_outside", "value > high", "value >= high"), "n"),
    (
        Bug("others are skipped", cold_selecting, "first_cold_meeting", "not any(_)", "not known"),
        "on",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "name"), BUGS, ids=[str(bug) for bug, _ in BUGS])
def test_a_planted_bug_is_noticed(tmp_path: Path, bug: Bug, name: str) -> None:
    with bug.planted(), filled(tmp_path) as log:
        assert next(differences(log, name), None)


def test_a_statistic_that_is_too_narrow_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def narrower(value: Any, *, is_high: bool) -> Any:
        if type(value) is not int:
            return None
        return value - 1 if is_high else value + 1

    monkeypatch.setattr(field_statistics, "_packed", narrower)
    with filled(tmp_path) as log:
        assert next(differences(log, "n", "in.deep"), None)
