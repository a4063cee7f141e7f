"""Arrow's reads end before the interpreter exits."""

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from strandline.log.arrow_streams import ArrowStreams
from strandline.values import ClosedError

SCHEMA = pa.schema([("n", pa.int64())])
WAIT_S = 60


class Gate:
    """Batches without end, each of which waits to be let through."""

    def __init__(self) -> None:
        self.is_inside = threading.Event()
        self.is_open = threading.Event()

    def batches(self) -> Iterator[pa.RecordBatch]:
        while True:
            self.is_inside.set()
            assert self.is_open.wait(WAIT_S)
            yield pa.record_batch([[1]], schema=SCHEMA)


def test_the_end_waits_for_the_pull_that_is_under_way_and_no_other_begins() -> None:
    streams, gate = ArrowStreams(_LeapingClock()), Gate()  # type: ignore[arg-type] # As below.
    reader = streams.reader(SCHEMA, gate.batches())
    found: list[pa.RecordBatch] = []
    pulling = threading.Thread(target=lambda: found.append(reader.read_next_batch()))
    ending = threading.Thread(target=streams.end)
    pulling.start()
    assert gate.is_inside.wait(WAIT_S)
    ending.start()
    while not _is_ended(streams):
        assert ending.is_alive()

    assert ending.is_alive()
    gate.is_open.set()
    ending.join(WAIT_S)
    pulling.join(WAIT_S)

    assert not ending.is_alive()
    assert [batch.num_rows for batch in found] == [1]
    with pytest.raises(ClosedError, match="shutting down"):
        reader.read_next_batch()


def _is_ended(streams: ArrowStreams) -> bool:
    try:
        streams.reader(SCHEMA, iter(()))
    except ClosedError:
        return True
    return False


def test_streams_that_have_ended_or_failed_are_not_waited_for() -> None:
    streams = ArrowStreams(_QuickClock())  # type: ignore[arg-type] # Time alone is asked for.
    read = streams.reader(SCHEMA, iter([pa.record_batch([[1]], schema=SCHEMA)]))
    failing = streams.reader(SCHEMA, iter(_fail, None))
    streams.reader(SCHEMA, Gate().batches())

    assert read.read_all().num_rows == 1
    with pytest.raises(ConnectionError):
        failing.read_next_batch()
    streams.end()


def test_a_stream_that_is_half_read_is_waited_for() -> None:
    streams = ArrowStreams(_QuickClock())  # type: ignore[arg-type] # As above.
    reader = streams.reader(SCHEMA, iter([pa.record_batch([[1]], schema=SCHEMA)] * 2))

    assert reader.read_next_batch().num_rows == 1

    with pytest.raises(AssertionError, match="it is waited for"):
        streams.end()


def _fail() -> pa.RecordBatch:
    raise ConnectionError


class _QuickClock:
    """A moment passes with each look; too little for a stream that is held."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 0.3
        assert self._now < 2.5, "it is waited for"
        return self._now


class _LeapingClock:
    """A second passes with each look, since a stream that is held is looked at for seconds."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 1.0
        return self._now


class _NoClock:
    def monotonic(self) -> float:
        return 0.0


def test_a_child_of_a_fork_does_not_wait_for_the_threads_of_its_parent() -> None:
    streams, gate = ArrowStreams(_NoClock()), Gate()  # type: ignore[arg-type] # As above.
    reader = streams.reader(SCHEMA, gate.batches())
    pulling = threading.Thread(target=reader.read_next_batch)
    pulling.start()
    assert gate.is_inside.wait(WAIT_S)
    before = streams.__dict__.copy()

    streams.forget()
    streams.end()

    streams.__dict__.update(before)
    gate.is_open.set()
    pulling.join(WAIT_S)
