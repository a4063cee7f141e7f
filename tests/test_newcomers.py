"""What people try first: it works, or an error says what to write instead."""

import asyncio
import importlib.metadata
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.locks import Latch
from strandline.log import Log

ROOT = Path(__file__).parents[1]
#: What no type checker has seen.
LOOSE: Any = sl


@pytest.fixture
def log() -> Iterator[Log]:
    with sl.open("memory:") as opened:
        opened.create_topic("orders")
        for number in range(3):
            opened.append("orders", sl.Event("order.created", {"id": number}, key=f"k{number}"))
        yield opened


@pytest.fixture
def file_log(tmp_path: Path) -> Iterator[Log]:
    with sl.open(f"file:{tmp_path / 'log'}") as opened:
        opened.create_topic("orders")
        opened.append("orders", sl.Event("order.created", {"id": 0}))
        yield opened


# --- a delivery stands for its record ---


def test_a_consumer_takes_a_delivery_for_its_record(log: Log) -> None:
    with log.consumer("orders", "mailer") as consumer:
        first, second, third = (consumer.next(0) for _ in range(3))
        assert first is not None
        assert second is not None
        assert third is not None

        assert consumer.ack(first) == 1
        assert consumer.nack(second) is False
        assert consumer.attempts(third).count == 0
        consumer.dead_letter(third, reason="a test")
        again = consumer.next(0)

    assert again == sl.Delivery(second.record, 2)
    assert log.marks(consumer.dead_letter_topic, 0).high == 1


def test_what_is_no_delivery_is_refused_in_words(log: Log) -> None:
    wrong: Any = 0
    with log.consumer("orders", "mailer") as consumer:
        consumer.next(0)
        for settle in (consumer.ack, consumer.nack, consumer.dead_letter):
            with pytest.raises(sl.InvalidError, match=r"pass the delivery .* or its record"):
                settle(wrong)


# --- names of choices ---


def test_a_choice_is_given_by_its_name_wherever_it_is_taken(log: Log, tmp_path: Path) -> None:
    log.create_topic("raw", value_kind="bytes")
    assert log.describe_topic("raw").settings.value_kind is sl.ValueKind.BYTES
    log.create_topic("raw", value_kind=sl.ValueKind.BYTES)  # The same, so no conflict.

    assert log.append("raw", b"", durability="applied").wait("applied").offset == 0
    with log.subscribe("orders", start="latest") as subscription:
        assert subscription.next(0) is None
    with log.subscribe("orders", start={0: "earliest"}) as subscription:
        assert subscription.next(0) is not None
    with log.subscribe("orders", partitions=[(0, "latest"), (0, sl.LATEST)]) as subscription:
        subscription.assignment.remove(0)
        subscription.assignment.add(0, "earliest")
        assert subscription.assignment.position(0) == 0
    with log.consumer("orders", "mailer", start="latest") as consumer:
        assert consumer.next(0) is None
    assert list(log.scope().replay("orders", "latest")) == []
    sl.on("orders", start="latest")(lambda record: None)

    sl.open(f"file:{tmp_path / 'log'}", mode="write").close()
    with sl.open(f"file:{tmp_path / 'log'}", mode="read") as reader:
        assert reader.mode == "read"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda log: log.create_topic("raw", value_kind="text"), "'event', 'bytes' or 'batch'"),
        (lambda log: log.append("orders", sl.Event("a"), durability="safe"), "'durable'"),
        (lambda log: log.subscribe("orders", start="newest"), "an offset from 0 or a datetime"),
        (lambda log: log.subscribe("orders", start=None), "an offset from 0 or a datetime"),
        (
            lambda log: log.consumer("orders", "c", start="now"),
            "'earliest', 'latest' or a datetime",
        ),
        (
            lambda log: log.scope().subscribe("orders", start="now"),
            "'earliest', 'latest', an offset",
        ),
        (lambda _: LOOSE.on("orders", start="now")(print), "'earliest', 'latest' or a datetime"),
        (lambda _: LOOSE.on("orders", start=5)(print), "'earliest', 'latest' or a datetime"),
        (lambda _: LOOSE.open("memory:", mode="rw"), "'read', 'consume' or 'write'"),
    ],
)
def test_a_wrong_name_raises_with_those_that_there_are(
    log: Log, call: Callable[[Log], object], told: str
) -> None:
    with pytest.raises(sl.InvalidError, match=told):
        call(log)


# --- one default ---


def test_every_reader_begins_at_the_oldest_record_by_default(log: Log) -> None:
    with (
        log.subscribe("orders") as plain,
        sl.subscribe(log, "orders") as function,
        log.scope().subscribe("orders") as scoped,
        log.scope("acme").subscribe("orders") as tenants,
        log.consumer("orders", "mailer") as consumer,
    ):
        first = plain.next(0)
        delivery = consumer.next(0)

        assert first is not None
        assert first.offset == 0
        assert function.next(0) == scoped.next(0) == tenants.next(0) == first
        assert delivery is not None
        assert delivery.record == first
    assert next(log.scope().replay("orders")) == first


# --- forks ---


def told_in_a_child(*calls: Callable[[], object]) -> list[str]:
    """Return what each of the calls raises in the child of a fork, or what it returns."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            for call in calls:
                try:
                    told = f"returned {call()!r}"
                except BaseException:  # noqa: BLE001 - The parent gets it.
                    told = traceback.format_exc(limit=0).replace("\n", " ")
                pipe.write(told + "\n")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()
    os.waitpid(child, 0)
    return lines


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_loop_in_a_forked_child_raises_and_does_not_just_end(file_log: Log) -> None:
    async def loop(stream: Any) -> list[object]:
        face = await stream.__aenter__()
        return [each async for each in face]

    with (
        file_log.subscribe("orders") as subscription,
        file_log.scope().subscribe("orders") as scoped,
        file_log.consumer("orders", "mailer") as consumer,
    ):
        streams: list[Any] = [subscription, scoped, consumer]
        told = told_in_a_child(
            *[lambda stream=each: list(stream) for each in streams],
            *[lambda stream=each: stream.next(0) for each in streams],
            *[lambda stream=each: asyncio.run(loop(stream)) for each in streams],
        )
        first = subscription.next(0)

    assert len(told) == 9
    for line in told:
        assert "ClosedError" in line
        assert "before a fork, open the log again in the child process" in line
    assert first is not None


def test_a_loop_still_ends_when_its_log_is_closed() -> None:
    log = sl.open("memory:")
    log.create_topic("orders")
    log.append("orders", sl.Event("order.created"))
    subscription = log.subscribe("orders")

    seen = []
    for record in subscription:
        seen.append(record.offset)
        log.close()

    assert seen == [0]


# --- decorators and retries ---


def test_a_decorator_without_a_topic_says_how_it_is_written(log: Log) -> None:
    bare: Any = sl.on
    bare_of_runner: Any = sl.Triggers(log).on

    for decorate in (bare, bare_of_runner):
        with pytest.raises(sl.InvalidError, match=r'write @on\("orders"\) above the function'):

            @decorate  # type: ignore[untyped-decorator] # Any, as in a notebook.
            def handle(record: sl.Record) -> None: ...


def test_a_method_is_registered_with_the_object_that_it_belongs_to(log: Log) -> None:
    class Mailer:
        def __init__(self) -> None:
            self.sent = Latch()

        def send(self, record: sl.Record) -> None:
            assert record.payload == {"id": 0}
            self.sent.set()

    mailer, runner = Mailer(), sl.Triggers(log)
    for wrong in (Mailer.send, mailer.send, print):
        with pytest.raises(sl.InvalidError, match=r"runner.on\(topic\)\(object.method\)"):
            sl.on("orders")(wrong)
    runner.on("orders", where="key = 'k0'")(mailer.send)

    with runner:
        assert mailer.sent.wait(60)


def test_a_limit_of_none_is_no_limit_for_both_calls(log: Log) -> None:
    log.create_topic("kept", retention_age_s=None, retention_bytes=10)

    unnamed = log.change_retention("kept", retention_age_s=60).settings
    removed = log.change_retention("kept", retention_bytes=None, retention_age_s=None).settings

    assert (unnamed.retention_age_s, unnamed.retention_bytes) == (60, 10)
    assert (removed.retention_age_s, removed.retention_bytes) == (None, None)
    assert removed == log.describe_topic(log.create_topic("plain")).settings


def test_a_start_without_a_time_zone_has_to_have_one(log: Log) -> None:
    with pytest.raises(sl.InvalidError, match="add tzinfo"):
        log.subscribe("orders", start=datetime(2020, 1, 1))
    with log.subscribe("orders", start=datetime(2020, 1, 1, tzinfo=UTC)) as subscription:
        assert subscription.next(0) is not None


# --- a backup, by path or by URL ---


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_backup_and_its_restore_both_take_a_path_or_a_url(scheme: str, tmp_path: Path) -> None:
    url = f"{scheme}:{tmp_path / 'log'}"
    with sl.open(url) as log:
        log.create_topic("orders", partitions=2)
        log.append_many("orders", [sl.Event("a", n) for n in range(5)], partition=1)

    made = [
        sl.backup(tmp_path / "by-path", url=url),
        sl.backup(f"{scheme}:{tmp_path / 'by-url'}", url=tmp_path / "log"),
    ]
    brought = [
        sl.restore(tmp_path / "by-path", f"{scheme}:{tmp_path / 'again'}"),
        sl.restore(
            f"{scheme}:{tmp_path / 'by-url'}",
            str(tmp_path / "part"),
            until={"orders": 0, ("orders", 1): 3},
        ),
    ]

    assert [each.source for each in made] == [url, url]
    assert [each.target for each in made] == [each.source for each in brought]
    for copy, high in zip((*made, *brought), (5, 5, 5, 3), strict=True):
        assert [each.end for each in copy.partitions] == [0, high]
        with sl.open(copy.target, mode="read") as log:
            assert [each.payload for each in log.read("orders", 1, 0)] == list(range(high))


def test_a_backup_takes_the_log_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_URL", f"file:{tmp_path / 'log'}")
    with sl.open() as log:
        log.create_topic("orders")

    assert sl.backup(tmp_path / "copy").source == f"file:{tmp_path / 'log'}"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda here: sl.backup(here / "copy", url=here / "nowhere"), "no log at this path"),
        (lambda here: sl.restore(here / "nowhere", here / "again"), "no log at this path"),
        (lambda here: sl.restore("s3://bucket/backup", here / "again"), "no such kind of log"),
        (lambda here: sl.backup(here / "log", url=here / "log"), "log"),
        (lambda here: sl.backup(here / "copy", url="memory:"), "cannot be copied"),
        (lambda here: sl.backup(f"sqlite:{here / 'copy'}", url=here / "log"), "of the same kind"),
        (lambda _: LOOSE.backup(None), "place is the path of a file or directory"),
        (lambda here: sl.restore(here / "log", here / "o", until={"order": 1}), "no such topic"),
        (lambda here: sl.restore(here / "log", here / "o", until={"orders": 9}), "ends before"),
        (lambda here: LOOSE.restore(here / "log", here / "o", until="orders=1"), "a Mapping"),
        (lambda here: LOOSE.restore(here / "log", here / "o", until={("o", 1, 2): 1}), "a topic"),
        (lambda here: sl.restore(here / "log", here / "o", until={"orders/0": 5}), '("a", 1)'),
    ],
)
def test_a_backup_that_cannot_be_made_is_refused_in_words(
    call: Callable[[Path], object], told: str, tmp_path: Path
) -> None:
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("orders")

    with pytest.raises(sl.InvalidError, match=told):
        call(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_damaged_copy_is_kept_and_reported(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.create_topic("orders")
        log.append_many("orders", [sl.Event("a", n) for n in range(100)])
    [segment] = (tmp_path / "log").rglob("*.segment")
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)

    with pytest.raises(sl.CorruptError, match="verify the two"):
        sl.backup(tmp_path / "copy", url=tmp_path / "log")

    assert (tmp_path / "copy").exists(), "what is sound of it may be all that there is"


# --- type checkers ---

CHECKED = """
import strandline as sl
log = sl.open("memory:", mode="rw")  # arg-type
log.append("x", {"a": 1})  # arg-type
log.append("x", "text")  # arg-type
log.append_many("x", [{"a": 1}])  # list-item
log.scope().publish("x", {"a": 1})  # arg-type
log.append("x", b"", durability="safe")  # arg-type
log.create_topic("x", value_kind="text")  # arg-type
log.subscribe("x", start="newest")  # call-overload
log.consumer("x", "c", start=5)  # call-overload
log.consumer("x", "c").ack(0)  # call-overload
log.reading()  # attr-defined
log.append("x", sl.Event("a"), durability="durable").wait("written")
log.append_many("x", [b"", b""])
log.create_topic("x", value_kind="bytes")
log.subscribe("x", start="earliest", partitions=[0, (1, "latest")])
log.consumer("x", "c", start="latest").ack(sl.Delivery(next(log.read("x", 0, 0)), 1))
for record in log.read("x", 0, 0):
    log.append("y", record.value)
import pyarrow as pa
log.append("x", pa.record_batch({"a": [1]}))
"""


@pytest.mark.heavy
def test_a_type_checker_refuses_what_the_log_would_refuse(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(CHECKED)
    expected = [
        (number, line.rpartition("# ")[2])
        for number, line in enumerate(CHECKED.splitlines(), 1)
        if "# " in line
    ]

    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy"),
            *("--strict", "--no-error-summary", "--hide-error-context", str(program)),
            *("--config-file", str(ROOT / "pyproject.toml")),
            *("--cache-dir", str(tmp_path)),
        ],
        check=False,
        capture_output=True,
        text=True,
    )

    assert not checked.stderr
    found = re.findall(r"program\.py:(\d+): error: .*\[([a-z-]+)\]", checked.stdout)
    assert [(int(number), code) for number, code in found] == expected


# --- the package ---


@pytest.mark.slow
def test_the_version_is_that_of_the_installed_package() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "strandline", "--version"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert sl.__version__ == importlib.metadata.version("strandline")
    assert shown == f"strandline {sl.__version__}\n"
    assert "__version__" in dir(sl)
