"""The core leaks no references."""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.values import Offset, Partition, Record
from tests.core.plain import MOMENT, needs_core

pytestmark = needs_core

PARTS = {"kind": "order.created", "key": "kéy", "headers": {"b": "1", "a": "é"}}
PAYLOAD = {"text": "é\n", "n": [1, 2.5, None, True, 2**70], "deep": {"a": {"b": [[]]}}}


def grown(call: Callable[[], Any], times: int) -> int:
    """Return by how many blocks memory has grown after so many calls."""
    for _ in range(100):
        call()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(times):
        call()
    gc.collect()
    return sys.getallocatedblocks() - before


def make_event() -> None:
    event = sl.Event(payload=PAYLOAD, occurred_at=MOMENT, **PARTS)  # type: ignore[arg-type]
    assert all((event.kind, event.key, event.headers, event.payload["deep"]))
    assert sl.Event.load(*event.parts()) == event
    sl.Event.load_many(*sl.Event.columns([event, event]))


def refuse_event() -> None:
    for wrong in ({"kind": 1}, {"key": "\ud800"}, {"headers": {"a": 1}}, {"occurred_at": 1}):
        with pytest.raises(sl.InvalidError):
            sl.Event(payload=PAYLOAD, **{**PARTS, **wrong})  # type: ignore[arg-type]
    with pytest.raises(sl.InvalidError):
        sl.Event(payload={"a": object()}, **PARTS)  # type: ignore[arg-type]


def make_record() -> None:
    record = Record("t", Partition(0), Offset(1), 2, None, None, sl.Event("k", PAYLOAD))
    assert all((repr(record), record.payload, str(record.timestamp)))
    with pytest.raises(sl.InvalidError):
        _ = Record("t", Partition(0), Offset(1), 2, None, None, b"").kind


def make_records_of_copies() -> None:
    core: Any = import_module("strandline._core.core")
    event = sl.Event(payload=PAYLOAD, **PARTS)  # type: ignore[arg-type]
    (copy,) = core.copies_of([event])
    (record,) = core.records_of("t", 0, 1, 2, None, [copy])
    assert (record.value, record.key, record.offset) == (event, "kéy", 1)
    for wrong in ([event, 1], (event,)):
        with pytest.raises((TypeError, SystemError)):
            core.copies_of(wrong)
        with pytest.raises(TypeError):
            core.records_of("t", 0, 1, 2, None, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("call", [make_event, refuse_event, make_record, make_records_of_copies])
def test_no_block_is_left_behind_by_many_calls(call: Callable[[], None]) -> None:
    assert not tracemalloc.is_tracing()

    # A leak of one object for each call would be as many blocks as calls.
    assert grown(call, 2_000) < 200


@pytest.mark.slow
def test_no_block_is_left_behind_by_many_reads(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path}/log") as log:
        log.create_topic("t")
        log.append_many("t", [sl.Event("k", PAYLOAD, key=str(n)) for n in range(100)])
        log.append_many("t", [sl.Event("k", PAYLOAD) for n in range(10)])

        assert grown(lambda: list(log.read("t", 0, 0)), 200) < 100
