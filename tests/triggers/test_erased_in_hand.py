"""Records that are erased while a trigger is handling them."""

from collections.abc import Iterator

import pytest

import strandline as sl
from strandline.triggers import Triggers, dead_letters, redrive
from strandline.values.internal_topics import DEAD_LETTERS_PREFIX
from tests.triggers.calls import wait_until


@pytest.fixture
def memory() -> Iterator[sl.Log]:
    with sl.open("memory:") as opened:
        opened.create_topic("orders")
        for key in ("ann", "bob"):
            opened.append("orders", sl.Event("placed", {"of": key}, key=key))
        yield opened


def letters_in(log: sl.Log) -> list[tuple[str | None, object]]:
    letters = log.read(log.topic(f"{DEAD_LETTERS_PREFIX}orders"), 0, 0)
    return [(record.key, record.payload) for record in letters]


def test_a_trigger_dead_letters_what_was_erased_as_erased(memory: sl.Log) -> None:
    triggers = Triggers(memory)

    @triggers.on("orders", name="billing", retry=[], where="key = 'ann'")
    def bill(record: sl.Record) -> None:
        assert record.key is not None
        memory.erase("orders", key=record.key)
        raise LookupError("no such customer")

    with triggers:
        wait_until(lambda: triggers.metrics()["billing"].dead_lettered == 1)

    assert letters_in(memory) == [(None, None)]
    assert list(dead_letters(memory, "orders")) == []


def test_a_trigger_continues_after_a_redriven_record_was_erased_in_hand(memory: sl.Log) -> None:
    triggers = Triggers(memory)
    handled: list[str | None] = []
    fails = True

    @triggers.on("orders", name="billing", retry=[])
    def bill(record: sl.Record) -> None:
        if fails:
            raise LookupError("no such customer")
        if record.key == "ann":
            memory.erase("orders", key="ann")
            raise LookupError("no such customer")
        handled.append(record.key)

    with triggers:
        wait_until(lambda: triggers.metrics()["billing"].dead_lettered == 2)
        fails = False
        redrive(memory, "orders")
        memory.append("orders", sl.Event("placed", {"of": "cid"}, key="cid"))
        wait_until(lambda: sorted(filter(None, handled)) == ["bob", "cid"])

    assert "ann" not in [key for key, _ in letters_in(memory)]
