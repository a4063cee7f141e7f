"""Exactly once where rows are staged in an object store, without a lock."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.spark.sink import committing, intents, rolling, staging
from strandline.spark.sink.committing import JOB_PREFIX, finish_all, sweep
from strandline.spark.sink.intents import Intents
from strandline.spark.sink.object_folder import ObjectFolder
from strandline.spark.sink.staging_place import StagingPlace
from strandline.tiering import open_store
from strandline.values import ConflictError, InvalidError, UnavailableError
from tests.spark.as_sink import Sink, events, numbers_in
from tests.spark.test_sink import LaterClock, interrupt

#: Where a process may be killed: the calls that change something.
CHANGES = ("put", "put_new", "delete")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'log'}"


@pytest.fixture
def sink(log: sl.Log, url: str, tmp_path: Path) -> Sink:
    log.create_topic("t", partitions=3)
    # Of one file log the sink needs no other place; here it stands for a log on a network.
    return Sink(log, url, staging=(tmp_path / "objects").as_uri())


def stored_objects(sink: Sink) -> list[str]:
    return [*open_store(str(sink.staging)).list("")]


def test_a_batch_is_written_once_however_often_it_comes(sink: Sink) -> None:
    for _ in range(3):
        sink.write(0, events(range(60)), events(range(60, 90)))
    sink.write(1, events(range(90, 99)))

    assert numbers_in(sink.log) == [*range(99)]
    with pytest.raises(ConflictError, match="written before with other rows"):
        sink.write(1, events(range(90, 98)))
    assert not [name for name in sink.folder.names() if name.endswith(".arrow")]


def test_rows_of_one_task_may_fill_several_objects(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "FILE_BYTES", 1)

    staged = sink.task(0, events(range(90)))
    sink.commit(0, [staged])

    assert len(staged.names) == 3
    assert numbers_in(sink.log) == [*range(90)]


def test_two_logs_share_a_store_and_not_their_batches(sink: Sink, tmp_path: Path) -> None:
    sink.write(0, events(range(5)))
    with sl.open(f"file:{tmp_path / 'other'}") as other:
        other.create_topic("t")
        Sink(other, f"file:{tmp_path / 'other'}", staging=sink.staging).write(0, events(range(9)))

        assert numbers_in(other) == [*range(9)]


def test_a_write_without_a_name_leaves_no_object(sink: Sink) -> None:
    sink.app = f"{JOB_PREFIX}1"
    sink.write(0, events(range(9)))

    assert stored_objects(sink) == []


def test_objects_that_were_not_recorded_are_swept_after_a_week(sink: Sink) -> None:
    sink.task(0, events(range(9)))
    sweep(sink.folders())
    assert any(name.endswith(".arrow") for name in stored_objects(sink))

    for folder in sink.folders():
        assert isinstance(folder, ObjectFolder)
        folder.clock = LaterClock()
        Intents(folder).sweep()

    assert not any(name.endswith(".arrow") for name in stored_objects(sink))


def test_old_batches_are_dropped_and_never_taken_for_new(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intents, "BATCHES_KEPT", 3)
    for version in range(10):
        sink.write(version, events([version]))

    with pytest.raises(InvalidError, match="older than those that are kept"):
        sink.write(0, events([0]))
    assert numbers_in(sink.log) == [*range(10)]


# --- interrupted ---


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_batch_is_finished_when_the_log_no_longer_knows_its_appends(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    interrupt(monkeypatch, steps, lambda: sink.write(0, events(range(90))))
    monkeypatch.setattr(rolling, "_AGE_SURE_US", -1)

    assert finish_all(sink.log, sink.folders()) == 1

    assert numbers_in(sink.log) == [*range(90)]


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it runs."""


class KilledStore:
    """A store whose user is killed before, or after, the nth call that changes something."""

    def __init__(self, store: Any, nth: int, *, after: bool) -> None:
        self._store = store
        self._left = nth
        self._after = after

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return self._killed(call) if name in CHANGES else call

    def _killed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any) -> Any:
            self._left -= 1
            if self._left < 0 or (self._left == 0 and not self._after):
                raise Killed
            result = call(*args)
            if self._left == 0:
                raise Killed
            return result

        return made


def kills(sink: Sink, *, after: bool) -> Iterator[int]:
    """Kill a writer at each call in turn; the next one writes the same batch."""
    sound = StagingPlace.folder
    for nth in range(1, 100):
        store = KilledStore(open_store(str(sink.staging)), nth, after=after)
        killed = ObjectFolder(store, f"strandline-staging/{sink.log.id}", sink.app)
        wanted = events(range(nth * 100, nth * 100 + 20))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StagingPlace, "folder", lambda *_, folder=killed: folder)
            try:
                sink.write(nth, wanted)
            except Killed:
                patch.setattr(StagingPlace, "folder", sound)
                sink.write(nth, wanted)
                yield nth
            else:
                return
    raise AssertionError("the writer never came to its end")


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_writer_is_killed_at_each_call_of_the_store(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    monkeypatch.setattr(rolling, "GROUP_BYTES", 1)

    killed = [*kills(sink, after=after)]

    assert len(killed) > 6
    found = [n for n in numbers_in(sink.log) if n // 100 in killed]
    assert found == [nth * 100 + n for nth in killed for n in range(20)]


# --- at the same time ---


def test_two_who_commit_one_batch_at_once_write_it_once(sink: Sink) -> None:
    for version in range(5):
        rows = [events(range(version * 90, version * 90 + 90)) for _ in range(2)]
        staged = [sink.task(version, each) for each in rows]
        start = threading.Barrier(2)
        errors: list[BaseException] = []

        def commit(
            each: Any, version: int = version, start: Any = start, errors: Any = errors
        ) -> None:
            start.wait()
            try:
                sink.commit(version, [each])
            except UnavailableError as error:
                errors.append(error)

        threads = [threading.Thread(target=commit, args=(each,)) for each in staged]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(errors) < 2
        assert numbers_in(sink.log) == [*range(version * 90 + 90)]


def test_one_whose_rows_another_has_swept_finds_the_batch_written(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = (sink.task(0, events(range(90))) for _ in range(2))
    find = Intents.find
    found: list[Any] = []

    def find_and_be_overtaken(self: Intents, version: int) -> Any:
        result = find(self, version)
        found.append(result)
        if len(found) == 1:
            sink.commit(0, [other])
        return result

    monkeypatch.setattr(Intents, "find", find_and_be_overtaken)
    sink.commit(0, [mine])

    assert found[0] is None
    assert numbers_in(sink.log) == [*range(90)]


def test_one_that_stood_still_while_another_finished_adds_nothing(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other's appends are so long ago that the log does not know them any more."""
    monkeypatch.setattr(committing, "CHUNK_ROWS", 8)
    monkeypatch.setattr(staging, "BLOCK_ROWS", 8)
    put = rolling._Rolling.put  # noqa: SLF001 # Where it stands still.
    taken_over: list[int] = []

    def stand_still(self: Any, index: int) -> int:
        end = put(self, index)
        if index == 1 and not taken_over:
            taken_over.append(index)
            contents = _copied_objects(sink)
            assert finish_all(sink.log, sink.folders()) == 1
            _restore(sink, contents)
            monkeypatch.setattr(rolling, "_TRUST_S", -1.0)
            monkeypatch.setattr(rolling, "_AGE_SURE_US", -1)
            _forget_keys(sink, monkeypatch)
        return end

    monkeypatch.setattr(rolling._Rolling, "put", stand_still)  # noqa: SLF001

    sink.write(0, events(range(90)))

    assert taken_over
    assert numbers_in(sink.log) == [*range(90)]


def _copied_objects(sink: Sink) -> dict[str, bytes]:
    store = open_store(str(sink.staging))
    return {name: store.get(name) or b"" for name in store.list("") if name.endswith(".arrow")}


def _restore(sink: Sink, contents: dict[str, bytes]) -> None:
    """Put back what the other has swept: the one that stood still has read it before."""
    for name, content in contents.items():
        open_store(str(sink.staging)).put(name, content)


def _forget_keys(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    append = type(sink.log).append_many

    def forgetful(*args: Any, idempotency_key: str, **more: Any) -> Any:
        return append(*args, idempotency_key=f"{idempotency_key} later", **more)

    monkeypatch.setattr(type(sink.log), "append_many", forgetful)


def test_a_batch_that_another_finished_and_forgot_is_not_recorded_again(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking and recording, others have written 100 batches and more."""
    staged = sink.task(0, events(range(5)))
    monkeypatch.setattr(intents, "BATCHES_KEPT", 1)
    record = Intents.record
    others: list[Any] = []

    def late(self: Intents, intent: Any) -> Any:
        if not others:
            others.append(intent)
            for each in range(4):
                sink.write(each, events([each]))
        return record(self, intent)

    monkeypatch.setattr(Intents, "record", late)

    with pytest.raises(InvalidError, match="older than those that are kept"):
        sink.commit(0, [staged])

    assert numbers_in(sink.log) == [*range(4)]
    assert "batch-0.intent" not in sink.folder.names()


# --- refused ---


def test_a_log_on_a_network_needs_a_store_and_a_log_on_a_disk_none(tmp_path: Path) -> None:
    store = (tmp_path / "objects").as_uri()
    with pytest.raises(InvalidError, match="stagingLocation"):
        StagingPlace("postgresql://me@db/shop", None).check()
    with pytest.raises(InvalidError, match="leave stagingLocation out"):
        StagingPlace(f"file:{tmp_path}", store).check()
    StagingPlace("http://127.0.0.1:7070", store).check()
    with pytest.raises(InvalidError, match="has no options"):
        StagingPlace("http://127.0.0.1:7070", f"{store}?region=eu-west-1").check()
