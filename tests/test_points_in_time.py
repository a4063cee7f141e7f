"""A backup is restored as of a moment: no topic has later records."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import strandline as sl
from strandline.testing import FakeClock
from strandline.triggers import dead_letters
from tests.cli.program import ran, run

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(clock: FakeClock, moment: datetime) -> None:
    clock.set_now_us(int(moment.timestamp() * 1_000_000))


def filled(url: str) -> None:
    """Make a log with an hour of orders, a minute apart, of two topics and a tenant."""
    clock = FakeClock()
    at(clock, NOON)
    with sl.open(url, clock=clock) as log:
        log.create_topic("orders", partitions=2)
        log.create_topic("payments")
        log.create_topic("orders", tenant="acme")
        for minute in range(60):
            at(clock, NOON + timedelta(minutes=minute))
            log.append("orders", sl.Event("placed", minute), partition=minute % 2)
            log.append("payments", sl.Event("paid", minute))
            log.append(log.topic("orders", tenant="acme"), sl.Event("placed", minute))
        with log.consumer("payments", "booking", deliveries_max=1) as booking:
            late = booking.next()
            assert late is not None
            booking.nack(late, reason="after the moment")


def minutes_of(url: str) -> list[list[int]]:
    with sl.open(url, mode="read") as log:
        places = [("orders", 0), ("orders", 1), ("payments", 0)]
        found = [[each.payload for each in log.read(name, part, 0)] for name, part in places]
        acme = log.topic("orders", tenant="acme")
        return [*found, [each.payload for each in log.read(acme, 0, 0)]]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_every_topic_ends_at_the_moment(scheme: str, tmp_path: Path) -> None:
    url = f"{scheme}:{tmp_path / 'log'}"
    filled(url)

    sl.restore(url, tmp_path / "then", until=NOON + timedelta(minutes=10))

    assert minutes_of(f"{scheme}:{tmp_path / 'then'}") == [
        [0, 2, 4, 6, 8],
        [1, 3, 5, 7, 9],
        list(range(10)),
        list(range(10)),
    ]


@pytest.mark.slow
def test_dead_letters_end_at_the_moment_and_a_consumer_beyond_it_gets_diverged(
    tmp_path: Path,
) -> None:
    filled(f"file:{tmp_path / 'log'}")
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        log.ack("payments", "ahead", 0, 30)

    sl.restore(tmp_path / "log", tmp_path / "then", until=NOON + timedelta(minutes=10))

    with sl.open(f"file:{tmp_path / 'then'}") as log:
        assert list(dead_letters(log, "payments")) == []
        with pytest.raises(sl.DivergedError) as caught:
            log.cursor("payments", "ahead", 0)
        assert caught.value.diverged_at == 10
        assert log.append("payments", sl.Event("paid", "again")).offset == 10


@pytest.mark.slow
def test_typed_records_before_the_moment_can_be_read_though_the_schema_grew_later(
    tmp_path: Path,
) -> None:
    import pyarrow as pa  # noqa: PLC0415 # Importing it takes time.

    clock = FakeClock()
    at(clock, NOON)
    schema = pa.schema([("id", pa.int64())])
    with sl.open(f"file:{tmp_path / 'log'}", clock=clock) as log:
        scope = log.scope()
        scope.register("readings", schema)
        scope.publish("readings", pa.record_batch([[1]], schema=schema))
        at(clock, NOON + timedelta(hours=1))
        wider = schema.append(pa.field("celsius", pa.float64()))
        scope.evolve("readings", wider)
        scope.publish("readings", pa.record_batch([[2], [20.0]], schema=wider))

    sl.restore(tmp_path / "log", tmp_path / "then", until=NOON + timedelta(minutes=1))

    with sl.open(f"file:{tmp_path / 'then'}", mode="read") as log:
        (only,) = log.scope().replay("readings")
        assert isinstance(only, sl.DeliveredBatch)
        assert only.batch.column("id").to_pylist() == [1]


@pytest.mark.slow
def test_moments_before_all_and_after_all_are_an_empty_and_a_whole_copy(tmp_path: Path) -> None:
    filled(f"file:{tmp_path / 'log'}")

    sl.restore(tmp_path / "log", tmp_path / "empty", until=NOON)
    sl.restore(tmp_path / "log", tmp_path / "whole", until=NOON + timedelta(days=1))

    assert minutes_of(f"file:{tmp_path / 'empty'}") == [[], [], [], []]
    assert minutes_of(f"file:{tmp_path / 'whole'}") == minutes_of(f"file:{tmp_path / 'log'}")


def test_a_moment_without_a_zone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sl.InvalidError, match="add tzinfo"):
        sl.restore(tmp_path / "log", tmp_path / "then", until=datetime(2026, 3, 1))

    assert not (tmp_path / "then").exists()


@pytest.mark.slow
def test_the_command_takes_a_time_or_an_age(tmp_path: Path) -> None:
    filled(f"file:{tmp_path / 'log'}")
    source, then = str(tmp_path / "log"), str(tmp_path / "then")

    ran("restore", source, "--url", then, "--until", "2026-03-01T12:10:00Z")
    refused = run("restore", source, "--url", f"{then}-2", "--until", "latest")

    assert minutes_of(f"file:{then}")[2] == list(range(10))
    assert refused.code == 2
    assert "2026-03-01T12:00:00Z" in refused.stderr


@pytest.mark.slow
def test_records_that_were_tiered_after_the_moment_are_read_in_the_copy(tmp_path: Path) -> None:
    from strandline.tiering import tier  # noqa: PLC0415 # Importing it takes time.

    clock = FakeClock()
    at(clock, NOON)
    with sl.open(f"file:{tmp_path / 'log'}", clock=clock) as log:
        log.create_topic("orders")
        log.append_many("orders", [sl.Event("placed", number) for number in range(10)])
        at(clock, NOON + timedelta(hours=1))
        log.append_many("orders", [sl.Event("placed", number) for number in range(10, 20)])
        at(clock, NOON + timedelta(hours=2))
        done = tier(log, "orders", f"file://{tmp_path}/cold", include_open=True, local_bytes=0)
        assert done.evicted_records == 20

    sl.restore(tmp_path / "log", tmp_path / "then", until=NOON + timedelta(minutes=30))

    with sl.open(f"file:{tmp_path / 'then'}", mode="read") as log:
        assert [each.payload for each in log.read("orders", 0, 0)] == list(range(10))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_an_end_among_evicted_records_of_a_proof_is_refused_with_those_that_are_not(
    tmp_path: Path, kind: str
) -> None:
    from strandline.tiering import tier  # noqa: PLC0415 # Importing it takes time.

    clock = FakeClock()
    at(clock, NOON)
    with sl.open(f"{kind}:{tmp_path / 'log'}", clock=clock) as log:
        log.create_topic("audit", proof=True)
        log.create_topic("orders")
        for hour in range(3):
            at(clock, NOON + timedelta(hours=hour))
            for topic in ("audit", "orders"):
                log.append(topic, sl.Event("placed", hour))
        tier(log, "audit", f"file://{tmp_path}/cold", include_open=True, local_bytes=0)
        log.append("audit", sl.Event("placed", 3))

    with pytest.raises(sl.InvalidError, match=r"at `oldest` or later.*leave this one") as refused:
        sl.restore(tmp_path / "log", tmp_path / "then", until=NOON + timedelta(minutes=30))

    assert "topic='audit' partition=0 end=1 oldest=3" in str(refused.value)
    sl.restore(tmp_path / "log", tmp_path / "later", until={"audit": 3, "orders": 1})
    sl.restore(tmp_path / "log", tmp_path / "whole", until={"orders": 1})
    for name, count in (("later", 3), ("whole", 4)):
        with sl.open(f"{kind}:{tmp_path / name}", mode="read") as log:
            assert [len(list(log.read(each, 0, 0))) for each in ("audit", "orders")] == [count, 1]
            assert all(report.is_sound for report in log.verify("audit"))
