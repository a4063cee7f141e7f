"""Calls that read all topics of a log skip those that are dropped meanwhile."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from strandline.log import Log, parts_of
from strandline.log.copies import ends_at
from strandline.log.holders import holders_of
from tests.logs import file_log, memory_log, sqlite_log

LATER_US = 1 << 52
OPENINGS: dict[str, Callable[[str], Log]] = {
    "memory": lambda _: memory_log(),
    "file": file_log,
    "sqlite": sqlite_log,
}
LOOKS: dict[str, Callable[[Log], object]] = {
    "describe": lambda log: log.describe().topics,
    "quotas": lambda log: log.quotas(),
    "the end of a copy": lambda log: len(ends_at(log, LATER_US)),
    "who holds what": lambda log: list(holders_of(log)),
}
LISTINGS = {"the end of a copy": 4}
"""After which listing of topics one is dropped, if not after the first."""


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("store", OPENINGS)
def test_a_look_at_all_topics_passes_over_one_that_is_dropped_meanwhile(
    store: str, look: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OPENINGS[store](str(tmp_path / "log")) as log:
        log.set_quota("acme", bytes_max=1 << 20)
        log.create_topic("kept", tenant="acme")
        expected = LOOKS[look](log)
        log.create_topic("dropped", tenant="acme")
        drop_after_listing(log, monkeypatch, LISTINGS.get(look, 1))

        assert LOOKS[look](log) == expected


def drop_after_listing(log: Log, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Have the topic `dropped` be dropped as soon as the topics were listed so many times."""
    store = parts_of(log).store
    listed = store.topics
    left = [*range(number)]

    def topics() -> Sequence[Any]:
        found = list(listed())
        left.pop()
        if not left:
            monkeypatch.undo()
            (dropped,) = (each.topic for each in found if each.topic.name == "dropped")
            log.drop_topic(dropped)
        return found

    monkeypatch.setattr(store, "topics", topics)
