"""A catalogue that has lost steps deletes nothing, and no call can make it lose any."""

import logging
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import parts_of
from strandline.tiering import removal, sweep, tier
from strandline.tiering.catalogue import SNAPSHOT_NAME, saved_catalogue
from strandline.values import CorruptError, InvalidError
from strandline.values.internal_topics import SEGMENTS_TOPIC
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.test_catalogue import shortened
from tests.tiering.tiered import BACKENDS, filled, move, opened

PARTITIONS = 8


def each_end(log: sl.Log) -> list[tuple[int, int]]:
    """Return the partitions of the catalogue that hold steps, with their ends."""
    ends = [(number, log.marks(SEGMENTS_TOPIC, number).high) for number in range(PARTITIONS)]
    return [(number, high) for number, high in ends if high]


def forgotten(log: Any) -> None:
    """Take every step from the catalogue, as versions without the refusal could."""
    for number, high in each_end(log):
        shortened(log, number, high)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_evicted_outlives_every_attempt_to_shorten_the_catalogue(
    backend: str, tmp_path: Path
) -> None:
    objects = MemoryObjects()
    with opened(backend, tmp_path, objects) as log:
        records = filled(log)
        move(log)

        attempts: list[Callable[[], object]] = [
            partial(log.apply_retention, SEGMENTS_TOPIC),
            partial(log.change_retention, SEGMENTS_TOPIC, retention_age_s=1, retention_bytes=None),
            partial(log.drop_topic, SEGMENTS_TOPIC),
            partial(tier, log, SEGMENTS_TOPIC, objects, local_bytes=0),
        ]
        for number, high in each_end(log):
            attempts += [
                partial(log.trim, SEGMENTS_TOPIC, number, high),
                partial(log.trim, SEGMENTS_TOPIC, number, high, force=True),
            ]
            with pytest.raises(InvalidError):
                log.evict(SEGMENTS_TOPIC, number, high)
        for attempt in attempts:
            with pytest.raises(InvalidError, match="only index"):
                attempt()

        assert sweep(log, objects) == 0
        assert list(log.read("t", 0, 0)) == records


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sweep_by_a_catalogue_without_its_beginning_deletes_nothing(
    backend: str, tmp_path: Path
) -> None:
    objects = MemoryObjects()
    with opened(backend, tmp_path, objects) as log:
        filled(log)
        move(log)
        kept = dict(objects.objects)
        forgotten(log)

        with pytest.raises(CorruptError, match="nothing may be deleted"):
            sweep(log, objects)
        with pytest.raises(CorruptError, match="nothing may be deleted"):
            tier(log, "t", objects, local_bytes=0)

        assert objects.objects == kept


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_a_snapshot_that_covers_the_beginning_stands_for_it(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.tiering.catalogue.SNAPSHOT_STEPS", 1)
    objects = MemoryObjects()
    with opened(backend, tmp_path, objects) as log:
        records = filled(log)
        move(log)
        with saved_catalogue(log) as catalogue:
            catalogue.follow_all()
        forgotten(log)

    with opened(backend, tmp_path, objects) as log:
        assert sweep(log, objects) == 0
        assert list(log.read("t", 0, 0)) == records


def test_an_object_that_may_be_the_only_copy_is_not_swept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The catalogue looks whole, and yet has none of the copies."""
    objects = MemoryObjects()
    with opened("memory", tmp_path, objects) as log:
        filled(log)
        move(log)
        kept = dict(objects.objects)
        log.append("t", sl.Event("k", {}))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("strandline.log.topic_changes.check_may_shorten", lambda _: None)
            log.drop_topic(SEGMENTS_TOPIC)

        with caplog.at_level(logging.WARNING, "strandline"):
            assert sweep(log, objects) == 0

        assert objects.objects == kept
        assert "nowhere else" in caplog.text


def test_an_object_of_an_unknown_topic_is_not_swept(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("memory", tmp_path / "one", objects) as log:
        filled(log)
        move(log)
        (name, content), *_ = objects.objects.items()
    with opened("memory", tmp_path / "other", objects) as log:
        filled(log, topic="other")
        strange = name.replace(name.partition("/")[0], str(log.id))
        objects.objects[strange] = content

        assert sweep(log, objects) == 0
        assert strange in objects.objects


def test_an_orphan_whose_records_are_in_the_log_is_swept(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("memory", tmp_path, objects) as log:
        records = filled(log)
        move(log, local_bytes=None)
        (name, content), *_ = objects.objects.items()
        orphan = name.replace(".parquet", f"-{uuid.uuid4().hex}.parquet")
        objects.objects[orphan] = content
        assert sweep(log, objects) == 1  # The log has the records, and the catalogue a copy.

        move(log)
        objects.objects[orphan] = content
        assert sweep(log, objects) == 1  # The catalogue has a copy.
        log.trim("t", 0, 20)
        objects.objects[orphan] = content
        assert sweep(log, objects) == 1  # No reader needs the records.
        assert objects.objects == {}
        assert len(records) == 20


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_what_has_removed_records_does_not_raise_afterwards(
    backend: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(backend, tmp_path) as log:
        filled(log)
        filled(log, topic="u")
        move(log)
        forgotten(log)

    with opened(backend, tmp_path) as log:
        with caplog.at_level(logging.WARNING, "strandline"):
            assert log.trim("u", 0, 10).removed == 10
            log.drop_topic("t")

        assert [topic.name for topic in log.topics()] == ["u"]
        assert "left to the next run" in caplog.text


@pytest.mark.slow
def test_a_dropped_topic_stays_known_to_the_catalogue_and_leaves_no_object(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("file", tmp_path, objects) as log:
        filled(log)
        move(log)
        objects_before = dict(objects.objects)
        log.drop_topic("t")
        assert objects.objects == {}

        objects.objects.update(objects_before)  # A slow upload comes after the deletion.
        assert sweep(log, objects) == len(objects_before)
        assert objects.objects == {}


# --- the checks are worth what they find ---


@pytest.mark.slow
def test_without_the_refusal_the_attempts_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.log.topic_changes.check_may_shorten", lambda _: None)

    for backend in BACKENDS:
        (tmp_path / backend).mkdir()
        with pytest.raises((pytest.fail.Exception, sl.StrandlineError)):
            test_what_was_evicted_outlives_every_attempt_to_shorten_the_catalogue(
                backend, tmp_path / backend
            )


def test_without_its_check_a_sweep_deletes_the_only_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(removal, "_is_only_copy", lambda *_: False)

    with pytest.raises(AssertionError):
        test_an_object_that_may_be_the_only_copy_is_not_swept(tmp_path, caplog)


def test_without_the_look_at_its_beginning_a_sweep_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.tiering.catalogue.SegmentCatalogue.check_whole", lambda _: None)

    with pytest.raises(pytest.fail.Exception):
        test_a_sweep_by_a_catalogue_without_its_beginning_deletes_nothing("memory", tmp_path)


def test_the_snapshot_lies_beside_the_log(tmp_path: Path) -> None:
    for backend in ("sqlite", "file"):
        with opened(backend, tmp_path) as log:
            assert (
                parts_of(log).store.beside(SNAPSHOT_NAME)
                == {
                    "sqlite": str(tmp_path / f"log.db-{SNAPSHOT_NAME}"),
                    "file": str(tmp_path / "log" / SNAPSHOT_NAME),
                }[backend]
            )
    with opened("memory", tmp_path) as log:
        assert parts_of(log).store.beside(SNAPSHOT_NAME) is None
