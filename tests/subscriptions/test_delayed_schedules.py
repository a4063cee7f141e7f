"""Delayed records in seeded runs, and planted bugs that these runs must detect."""

from typing import Any

import msgspec
import pytest

from strandline.log import cursors
from strandline.log.lags import ConsumerCursor
from strandline.subscriptions.acks import Acks
from strandline.subscriptions.outstanding import Outstanding
from strandline.subscriptions.waiting import Waiting
from tests.subscriptions.delayed_schedules import failures

SEEDS = 5
PLANTED_SEEDS = 40


@pytest.mark.slow
def test_delayed_records_keep_their_guarantees_in_seeded_runs() -> None:
    assert failures(range(SEEDS)) == {}


def never(*_: Any) -> bool:
    return False


def no_gaps(*_: Any) -> None:
    return None


def gaps_not_read(cursor: ConsumerCursor, _: Any) -> ConsumerCursor:
    return msgspec.structs.replace(cursor, settled=(), delays=())


def passed_over(self: Outstanding, offset: int) -> None:
    self._next = max(self._next, offset + 1)
    self._passed.add(offset, offset + 1)
    self._rise()


BUGS: dict[str, tuple[Any, str, Any]] = {
    "times are ignored": (Waiting, "is_early", never),
    "gaps are not stored": (Outstanding, "gaps_after", no_gaps),
    "gaps are not read": (cursors, "_with_known_gaps", gaps_not_read),
    "delays are not stored": (Acks, "delay", no_gaps),
    "what waits is passed over": (Outstanding, "wait", passed_over),
    "what lies between gaps is lost": (Waiting, "_resume", no_gaps),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, planted = BUGS[bug]
    monkeypatch.setattr(owner, name, planted)

    for seed in range(PLANTED_SEEDS):
        if failures(range(seed, seed + 1)):
            return
    pytest.fail(f"no run notices: {bug}")
