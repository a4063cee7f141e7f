"""Predicates that a server evaluates: the same records as on the client, fewer of them sent."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import Log, ReadRange, parts_of
from strandline.predicates import PredicateEvalError
from strandline.scans import paging
from strandline.server import remote_selecting
from strandline.server.app import ENDPOINTS
from strandline.stores.remote import RemoteStore
from strandline.subscriptions.screening import EventScreen
from strandline.values.topic import ValueKindName
from tests.planting import Bug
from tests.stores.remote.switchboard import Switchboard
from tests.tiering.faulty_store import FaultyObjects
from tests.tiering.tiered import move, opened

RECORDS = 120
DECLARED = pa.schema({"n": pa.int64(), "text": pa.string()})
EVENTS = (
    "payload.n = 7",
    "payload.n % 50 = 3 AND kind = 'paid'",
    "payload.text > 'x2' OR key IS NULL",
    "kind = 'none such'",
    "kind LIKE 'p%' AND headers['a'] = '1'",
    "payload.n >= 100 AND timestamp > TIMESTAMP '2000-01-01 00:00:00'",
    "CASE WHEN payload.n < 5 THEN TRUE END",
    "10 / payload.n::INT > 1",
)
BATCHES = ("n < 5", "n % 40 = 1 AND text IS NOT NULL", "n > 100000", "text = 't3'", "10 / n > 4")


def filled(kind: ValueKindName = "event", declared: pa.Schema | None = None) -> Log:
    """Return a log with a topic `t`; what follows 115 makes strict predicates fail."""
    log = sl.open("memory:")
    log.create_topic("t", partitions=2, value_kind=kind, payload_schema=declared)
    for number in range(RECORDS):
        value: Any = sl.Event(
            "paid" if number % 3 else "made",
            {"n": number if number < 115 else "odd", "text": f"x{number % 7}"},
            key=None if number % 5 == 0 else f"k{number % 11}",
            headers={"a": str(number % 2)},
        )
        if kind == "batch":
            rows = {"n": [number, None, -number], "text": [f"t{number % 9}", None, "z"]}
            value = pa.RecordBatch.from_pydict(rows)
        log.append("t", value, partition=number % 2)
    return log


class Counts:
    """Counts the answers of a server to a remote log, and their bytes."""

    def __init__(self, log: Log) -> None:
        store: Any = parts_of(log).store
        client = store._connection._client  # noqa: SLF001 - The seam.
        self._post = client.post
        self.calls: list[str] = []
        self._bytes: dict[str, int] = {}
        client.post = self

    def __call__(self, name: str, **options: Any) -> Any:
        answer = self._post(name, **options)
        self.calls.append(name)
        self._bytes[name] = self._bytes.get(name, 0) + len(answer.content)
        return answer

    def bytes(self, *names: str) -> int:
        """Return how much was answered to these calls."""
        return sum(self._bytes.get(name, 0) for name in names)


@pytest.fixture
def remote(switchboard: Switchboard) -> Iterator[Callable[..., Log]]:
    logs: list[Log] = []

    def open_remote(log: Log, without: tuple[str, ...] = ()) -> Log:
        kept = [each for each in ENDPOINTS if each.path.split("/")[-1] not in without]
        url = switchboard.serve(log, endpoints=kept)
        logs.append(Log(RemoteStore(url)))
        return logs[-1]

    yield open_remote
    for each in logs:
        each.close()


def delivered(log: Log, where: str) -> list[Any]:
    """Return what a subscription delivers of each partition, and where or how it ends."""
    found: list[Any] = []
    for partition in (0, 1):
        with log.subscribe("t", where=where, partitions=[partition], read_ahead=7) as records:
            try:
                while (record := records.next(timeout_s=0)) is not None:
                    place = record.partition, record.offset, record.timestamp_us
                    found.append((*place, record.key, shown(record.value)))
            except PredicateEvalError as error:
                found.append(type(error))
            found.append(records.assignment.position(partition))
    return found


def shown(value: Any) -> Any:
    return value.to_pylist() if isinstance(value, pa.RecordBatch) else value.payload


def scanned(log: Log, where: str) -> Any:
    try:
        return log.scan("t", where=where).to_table().to_pylist()
    except PredicateEvalError as error:
        return type(error)


CASES = [
    *(("event", None, text) for text in EVENTS),
    *(("event", DECLARED, text) for text in EVENTS[:4]),
    *(("batch", None, text) for text in BATCHES),
]


def check_same(
    open_remote: Callable[..., Log], kind: ValueKindName, declared: Any, where: str
) -> None:
    with filled(kind, declared) as log:
        other = open_remote(log)
        assert delivered(other, where) == delivered(log, where)
        assert scanned(other, where) == scanned(log, where)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "declared", "where"), CASES)
def test_a_remote_log_selects_what_the_log_itself_selects(
    remote: Callable[..., Log], kind: ValueKindName, declared: Any, where: str
) -> None:
    check_same(remote, kind, declared, where)


def test_of_a_subscription_only_the_records_that_match_are_sent(
    remote: Callable[..., Log],
) -> None:
    with filled() as log:
        other = remote(log)
        counts = Counts(other)

        found = delivered(other, "payload.n = 7")

    assert [each[1] for each in found if isinstance(each, tuple)] == [3]
    assert "read" not in counts.calls
    assert counts.bytes("select") < 400


def test_of_a_scan_only_the_rows_and_columns_that_are_wanted_are_sent(
    remote: Callable[..., Log],
) -> None:
    with filled() as log:
        other = remote(log)
        counts = Counts(other)

        found = other.scan("t", where="payload.n = 7", columns=["_offset", "kind"]).to_table()

    assert found.to_pylist() == [{"_offset": 3, "kind": "paid"}]
    assert "read" not in counts.calls
    assert counts.bytes("scan") < 4_000


def test_a_scan_without_a_predicate_sends_the_columns_alone(remote: Callable[..., Log]) -> None:
    with filled() as log:
        other = remote(log)
        counts = Counts(other)
        other.scan("t").to_table()
        whole = counts.bytes("scan")

        offsets = other.scan("t", columns=["_offset"]).to_table().column("_offset").to_pylist()

    assert offsets == [*range(RECORDS // 2)] * 2
    assert counts.bytes("scan") - whole < whole / 3
    assert "read" not in counts.calls


def test_the_columns_of_a_topic_of_batches_are_asked_for_without_its_records(
    remote: Callable[..., Log],
) -> None:
    with filled("batch") as log:
        other = remote(log)
        counts = Counts(other)

        found = other.scan("t", where="n = 5")

        assert found.schema == log.scan("t").schema
        assert "read" not in counts.calls


@pytest.mark.parametrize("kind", ["event", "batch"])
def test_a_server_that_evaluates_nothing_sends_the_records(
    remote: Callable[..., Log], kind: ValueKindName
) -> None:
    where = EVENTS[1] if kind == "event" else BATCHES[0]
    with filled(kind) as log:
        other = remote(log, ("select", "scan", "scan-schema"))
        counts = Counts(other)

        assert delivered(other, where) == delivered(log, where)
        assert scanned(other, where) == scanned(log, where)

    assert "read" in counts.calls
    assert counts.calls.count("scan") <= 1


def test_the_server_skips_cold_objects_that_cannot_match(
    remote: Callable[..., Log], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_selecting, "_PAGE_RECORDS", 7)
    objects = FaultyObjects()
    with opened("memory", tmp_path, objects) as log:
        log.create_topic("t", payload_schema=DECLARED)
        log.append_many("t", [sl.Event("k", {"n": number}) for number in range(70)])
        move(log)
        log.append("t", sl.Event("k", {"n": 500}))
        objects.calls.clear()
        with remote(log).subscribe("t", where="payload.n IN (52, 500)") as records:
            found = [each.payload["n"] for each in _taken(records)]

        assert found == [52, 500]
        # The first, which is read before anything is asked, and the one that has it.
        assert objects.calls.count("get") <= 3


def test_several_subscriptions_have_one_page_of_what_any_of_them_wants(
    remote: Callable[..., Log],
) -> None:
    with filled() as log:
        other = remote(log)
        counts = Counts(other)
        all_of = [
            other.subscribe("t", where=f"payload.n = {number}", partitions=[0])
            for number in (8, 20, 1_000)
        ]

        found = [[record.payload["n"] for record in _taken(each)] for each in all_of]

    assert found == [[8], [20], []]
    assert counts.calls.count("select") == 1
    assert "read" not in counts.calls


def _taken(subscription: Any) -> list[sl.Record]:
    found = []
    while (record := subscription.next(timeout_s=0)) is not None:
        found.append(record)
    return found


def test_a_subscription_that_joins_while_a_page_is_read_misses_nothing(
    remote: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page on its way was selected without the predicate of the one that joins."""
    with filled() as log:
        other = remote(log)
        first, second = (
            other.subscribe("t", where=f"payload.n = {n}", partitions=[0]) for n in (8, 10)
        )
        late: list[Any] = []
        select = remote_selecting._selected  # noqa: SLF001 - The seam.

        def joined(*args: Any) -> Any:
            if not late:
                late.append(other.subscribe("t", where="payload.n = 12", partitions=[0]))
            return select(*args)

        monkeypatch.setattr(remote_selecting, "_selected", joined)
        found = [[each.payload["n"] for each in _taken(one)] for one in (first, second)]

        assert [*found, [each.payload["n"] for each in _taken(late[0])]] == [[8], [10], [12]]


def test_new_records_come_as_they_are_appended(remote: Callable[..., Log]) -> None:
    with filled() as log:
        other = remote(log)
        with other.subscribe("t", where="kind = 'new'", start="latest") as records:
            for number in range(3):
                log.append("t", sl.Event("other", number), partition=0)
                log.append("t", sl.Event("new", number), partition=0)

                record = records.next(timeout_s=60)

                assert record is not None
                assert record.payload == number


def test_what_a_server_selects_too_much_is_left_out(
    remote: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_selecting, "_selected", lambda screens, records: list(records))
    with filled() as log:
        assert delivered(remote(log), EVENTS[1]) == delivered(log, EVENTS[1])


def test_a_server_whose_answer_is_out_of_order_is_not_believed(
    remote: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_selecting, "_selected", lambda screens, found: list(found)[::-1])
    with (
        filled() as log,
        remote(log).subscribe("t", where="payload.n > 1") as records,
        pytest.raises(sl.CorruptError, match="out of order"),
    ):
        records.next(timeout_s=0)


@pytest.mark.parametrize(
    "where", ["payload.n = 7", "payload.missing = 7"], ids=["known", "unknown to the topic now"]
)
def test_a_predicate_means_what_it_meant_when_the_subscription_began(
    remote: Callable[..., Log], where: str
) -> None:
    """The declaration that it was parsed with is sent along."""
    with filled() as log:
        screen = EventScreen(where, 0, pa.schema({"n": pa.int64(), "missing": pa.int64()}))
        store: Any = parts_of(remote(log)).store
        topic = store.find_topic_id(log.topic("t").id)

        page = store.read_selected(topic, 1, ReadRange(0), [screen.text])

        assert len(page.records) == ("missing" not in where)
        assert page.end == RECORDS // 2


BUGS = [
    Bug(
        "a record on which the predicate fails is left out",
        remote_selecting,
        "_selected",
        "outcome is None",
        "not isinstance(outcome, Record)",
    ),
    Bug(
        "a page continues after the record that is too much",
        remote_selecting._Limits,  # noqa: SLF001
        "take",
        "return record.offset",
        "return end",
    ),
    Bug("a scan ends early", paging, "scan_page", "return taken, span[1]", "return [], span[1]"),
]


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_is_noticed(remote: Callable[..., Log], bug: Bug) -> None:
    def every() -> None:
        for where in (EVENTS[2], EVENTS[-1]):
            check_same(remote, "event", None, where)

    with bug.planted(), pytest.raises(AssertionError):
        every()
