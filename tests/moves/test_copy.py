"""A log that moves to another kind of store, with everything that it stores."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import strandline as sl
from strandline.moves import moving, requests, topic_move
from strandline.moves.requests import WriteIdentities
from strandline.moves.topic_move import TopicMove
from tests.moves.copy_kills import kill_copies
from tests.moves.rich_log import content, new_source, trim_some
from tests.planting import Bug

PAIRS = [("file", "sqlite"), ("sqlite", "file"), ("file", "file"), ("sqlite", "sqlite")]
EVENT = sl.Event("later", {"n": 1})


@pytest.fixture(params=PAIRS, ids="-".join)
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The URL of a full log, and of a place for its copy."""
    source, target = request.param
    return new_source(tmp_path, source), f"{target}:{tmp_path / 'target'}"


def test_a_copy_is_the_same_log_elsewhere(ends: tuple[str, str]) -> None:
    source, target = ends
    counts: list[int] = []

    copied = sl.copy(source, target, progress=counts.append)

    with sl.open(source, mode="read") as old, sl.open(target, mode="read") as new:
        assert content(new) == content(old)
        assert all(report.is_sound for report in new.verify("orders"))
    assert sum(counts) == sum(each.end - each.low for each in copied.partitions) == 69


def test_a_copy_of_a_trimmed_log_begins_where_it_does(ends: tuple[str, str]) -> None:
    source, target = ends
    with sl.open(source) as log:
        trim_some(log)

    sl.copy(source, target)

    with sl.open(source, mode="read") as old, sl.open(target) as new:
        assert content(new) == content(old)
        assert all(report.is_sound for report in new.verify("orders"))
        raw = new.topic("raw", tenant="acme")
        assert new.append(raw, b"first", idempotency_key="early").is_repeat
        assert new.append("orders", EVENT, partition=1).offset == new.marks("orders", 1).high - 1
        assert all(report.is_sound for report in new.verify("orders"))


def test_a_copy_recognises_what_its_source_would(ends: tuple[str, str]) -> None:
    source, target = ends
    sl.copy(source, target)

    with sl.open(target) as new:
        keyed = new.append_many(
            *("orders", [sl.Event("keyed", {"n": n}) for n in range(3)]),
            partition=0,
            idempotency_key="k",
        )
        assert [each.is_repeat for each in keyed] == [True] * 3
        assert new.append(
            "orders", sl.Event("p", {}), partition=0, producer="till", sequence=8
        ).is_repeat
        with pytest.raises(sl.ConflictError):
            new.append("orders", sl.Event("p", {}), partition=0, producer="till", sequence=7)
        assert not new.append(
            "orders", sl.Event("p", {}), partition=0, producer="till", sequence=10
        ).is_repeat


def test_a_copy_continues_where_it_was_and_follows_what_changed(ends: tuple[str, str]) -> None:
    source, target = ends
    sl.copy(source, target)
    with sl.open(source) as log:
        log.append("orders", EVENT)
        log.append("orders", EVENT, idempotency_key="late")
        log.create_topic("new")
        log.append("new", EVENT)
        log.trim("orders", 1, 3, force=True)
        log.change_retention("empty", retention_age_s=60)
        log.delete_consumer("orders", "billing")
        log.register("orders", "shipping", {0: 1})
    counts: list[int] = []

    sl.copy(source, target, progress=counts.append)

    assert sum(counts) == 3
    with sl.open(source, mode="read") as old, sl.open(target, mode="read") as new:
        assert content(new) == content(old)


def test_partitions_that_were_added_since_are_copied(ends: tuple[str, str]) -> None:
    source, target = ends
    sl.copy(source, target)
    with sl.open(source) as log:
        last = log.describe_topic("orders").settings.partitions
        log.add_partitions("orders", last + 1)
        log.append("orders", EVENT, partition=last)

    sl.copy(source, target)

    with sl.open(source, mode="read") as old, sl.open(target, mode="read") as new:
        assert new.marks("orders", last).high == 1
        assert content(new) == content(old)


def test_a_topic_that_had_got_partitions_before_is_copied(ends: tuple[str, str]) -> None:
    source, target = ends
    with sl.open(source) as log:
        first = log.describe_topic("orders").settings.partitions
        log.add_partitions("orders", first + 1)
        log.add_partitions("orders", first + 3)
        log.append("orders", EVENT, partition=first + 2)

    sl.copy(source, target)

    with sl.open(source, mode="read") as old, sl.open(target, mode="read") as new:
        assert new.marks("orders", first + 2).high == 1
        assert content(new) == content(old)
    with sl.open(target) as new:
        new.add_partitions("orders", first + 4)
        assert new.append("orders", EVENT, partition=first + 3).offset == 0
        new.drop_topic("orders")
        assert "orders" not in [each.name for each in new.topics()]


def test_a_consumer_continues_in_the_copy(ends: tuple[str, str]) -> None:
    source, target = ends
    sl.copy(source, target)

    with sl.open(target) as new, new.consumer("orders", "billing") as consumer:
        delivery = consumer.next(timeout_s=30.0)
        assert delivery is not None
        first = {0: 5, 1: 0}[delivery.record.partition]
        assert delivery.record.offset == first


def test_some_topics_are_copied_alone(tmp_path: Path) -> None:
    source, target = new_source(tmp_path, "file"), f"sqlite:{tmp_path / 'target'}"

    sl.copy(source, target, topics=["raw"])

    with sl.open(target, mode="read") as new:
        assert [topic.name for topic in new.topics(tenant="acme")] == ["raw"]
        assert new.topics() == []
    with pytest.raises(sl.InvalidError, match="no such topics"):
        sl.copy(source, target, topics=["orders", "missing"])


def test_a_copy_that_is_refused_for_its_topics_leaves_no_target(tmp_path: Path) -> None:
    source, target = new_source(tmp_path, "file"), tmp_path / "target"

    with pytest.raises(sl.InvalidError, match="no such topics"):
        sl.copy(source, target, topics=["orders", "missing"])

    assert not target.exists()


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_log_is_not_copied_onto_itself(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = new_source(tmp_path, kind)
    path = Path(source.partition(":")[2])
    monkeypatch.chdir(path.parent)

    for target in (
        source,
        f"{kind}:{path.name}",
        f"{kind}:{path.parent}/../{path.parent.name}/{path.name}",
    ):
        with pytest.raises(sl.InvalidError, match="onto itself"):
            sl.copy(source, target)


def test_a_target_that_is_no_copy_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    source, other = new_source(tmp_path, "file"), f"sqlite:{tmp_path / 'other'}"
    with sl.open(other) as log:
        log.create_topic("orders")

    with pytest.raises(sl.InvalidError, match="the target is another log"):
        sl.copy(source, other)
    with pytest.raises(sl.InvalidError, match="memory:"):
        sl.copy(source, "memory:")
    with pytest.raises(sl.InvalidError):
        sl.copy(tmp_path / "nothing", f"sqlite:{tmp_path / 'new'}")

    with sl.open(other, mode="read") as log:
        assert log.marks("orders", 0).high == 0


def test_a_copy_that_others_have_written_to_is_refused(tmp_path: Path) -> None:
    source, target = new_source(tmp_path, "file"), f"sqlite:{tmp_path / 'target'}"
    sl.copy(source, target)
    with sl.open(source) as old, sl.open(target) as new:
        old.append("tables", _batch(4))
        new.append("tables", _batch(5))

    with pytest.raises(sl.InvalidError, match="written to by others"):
        sl.copy(source, target)


def test_a_source_that_was_trimmed_beyond_the_copy_is_refused(tmp_path: Path) -> None:
    source, target = new_source(tmp_path, "file"), f"sqlite:{tmp_path / 'target'}"
    sl.copy(source, target)
    with sl.open(source) as old:
        for _ in range(3):
            old.append("tables", _batch(4))
        old.trim("tables", 0, 3, force=True)

    with pytest.raises(sl.InvalidError, match="copy to a new log"):
        sl.copy(source, target)


@pytest.mark.parametrize("has_proof", [True, False])
@pytest.mark.parametrize("key", ["ann", "bob"])
def test_a_copy_of_records_that_were_erased_since_is_refused(
    tmp_path: Path, key: str, has_proof: bool
) -> None:
    source, target = f"file:{tmp_path / 'source'}", f"sqlite:{tmp_path / 'target'}"
    with sl.open(source) as log:
        log.create_topic("people", proof=has_proof)
        for each in ("ann", "bob"):
            log.append("people", sl.Event("joined", {}, key=each))
        sl.copy(source, target)
        log.erase("people", key=key)

        with pytest.raises(sl.InvalidError, match="erased after they were copied") as caught:
            sl.copy(source, target)
        sl.copy(source, f"sqlite:{tmp_path / 'again'}")

    assert caught.value.fields["offset"] == ["ann", "bob"].index(key)
    with sl.open(f"sqlite:{tmp_path / 'again'}") as again:
        assert [record.key for record in again.read("people", 0, 0)].count(key) == 0


def _batch(value: int) -> Any:
    return pa.record_batch({"a": [value]})


BUGS = [
    Bug("identities are not copied", WriteIdentities, "at", "self._at.get(...)", "None"),
    Bug(
        "timestamps are not copied",
        requests._Pending,  # noqa: SLF001 - To plant a bug.
        "request",
        "self.first.timestamp_us",
        "None",
    ),
    Bug("cursors are not copied", TopicMove, "keys", "_.put_key(...)", "None"),
    Bug("the anchor is not copied", TopicMove, "_begin", "_.history(...).anchor", "bytes(32)"),
]


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_is_seen(bug: Bug, tmp_path: Path) -> None:
    source, target = new_source(tmp_path, "file"), f"sqlite:{tmp_path / 'target'}"
    with sl.open(source) as log:
        trim_some(log)
    with bug.planted(), pytest.raises((AssertionError, sl.StrandlineError)):
        _copy_and_check(source, target)


def _copy_and_check(source: str, target: str) -> None:
    sl.copy(source, target)
    with sl.open(source, mode="read") as old, sl.open(target) as new:
        assert content(new) == content(old)
        assert new.append(
            "orders", sl.Event("p", {}), partition=0, producer="till", sequence=8
        ).is_repeat


def test_a_difference_is_found_by_the_comparison_at_the_end(tmp_path: Path) -> None:
    source, target = new_source(tmp_path, "file"), f"sqlite:{tmp_path / 'target'}"
    real = requests.requests_of

    def changed(*parts: Any) -> Iterator[Any]:
        for number, request in enumerate(real(*parts)):
            assert request.timestamp_us is not None
            yield (
                request._replace(timestamp_us=request.timestamp_us + 1) if number == 1 else request
            )

    with (
        mock.patch.object(topic_move, "requests_of", changed),
        pytest.raises(sl.CorruptError, match="differs"),
    ):
        sl.copy(source, target)


@pytest.mark.slow
def test_a_copy_that_is_killed_continues(tmp_path: Path) -> None:
    assert kill_copies(tmp_path, "file", f"sqlite:{tmp_path / 'target'}", kills=2, seed=1) > 0


def test_passes_end_while_a_writer_continues(tmp_path: Path) -> None:
    source, target = new_source(tmp_path, "file"), f"sqlite:{tmp_path / 'target'}"
    with sl.open(source) as log, mock.patch.object(moving, "_FEW", 0):
        sl.copy(source, target, progress=lambda _: _append(log))

        with sl.open(target, mode="read") as new:
            assert 0 < new.marks("orders", 0).high <= log.marks("orders", 0).high


def _append(log: sl.Log) -> None:
    log.append("orders", EVENT, partition=0)
