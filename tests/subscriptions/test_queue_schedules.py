"""Work queues in seeded runs, and planted bugs that these runs must notice."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from strandline.subscriptions import held_deliveries, queue_leasing, queue_state
from strandline.subscriptions.held_deliveries import HeldDeliveries
from strandline.subscriptions.queue_records import QueueRecord, Sight
from strandline.subscriptions.queue_state import Lease, QueueState
from strandline.subscriptions.shared_consumer import SharedConsumer
from tests.subscriptions.queue_schedules import failures

SEEDS = 12
PLANTED_SEEDS = 40


@pytest.mark.slow
def test_a_work_queue_keeps_its_guarantees_in_seeded_runs() -> None:
    assert failures(range(SEEDS)) == {}


def no_fence(*_: object) -> bool:
    return True


def cursor_before_gap(state: QueueState, offsets: Any) -> QueueState:
    changed = _with_settled(state, offsets)
    end = max([changed.floor, *(end for _, end in changed.settled)])
    return msgspec.structs.replace(changed, floor=end, settled=(), next=max(state.next, end))


def gaps_forgotten(state: QueueState, offsets: Any) -> QueueState:
    changed = _with_settled(state, offsets)
    return msgspec.structs.replace(
        changed,
        settled=(),
        leases=tuple(
            sorted(
                (
                    *changed.leases,
                    *(Lease(n, 1, 0, "") for run in changed.settled for n in range(*run)),
                ),
                key=lambda each: each.offset,
            )
        ),
    )


def leases_ignored(
    state: QueueState, end: int, now_us: int, sight: Sight, **given: Any
) -> Iterator[int]:
    return _available(state, end, now_us + 10**12, sight, **given)


def keys_ignored(
    state: QueueState, end: int, now_us: int, sight: Sight, **given: Any
) -> Iterator[int]:
    return _available(state, end, now_us, sight, by_key=False)


def times_ignored(
    state: QueueState, end: int, now_us: int, sight: Sight, **given: Any
) -> Iterator[int]:
    return _available(state, end, now_us, lambda n: QueueRecord(sight(n).key, 0), **given)


def not_counted(state: QueueState, offsets: Any, *given: Any) -> QueueState:
    changed = _with_leases(state, offsets, *given)
    leases = tuple(msgspec.structs.replace(each, count=1) for each in changed.leases)
    return msgspec.structs.replace(changed, leases=leases)


def counted_twice(state: QueueState, offsets: Any, *given: Any) -> QueueState:
    changed = _with_leases(state, offsets, *given)
    leases = tuple(
        msgspec.structs.replace(each, count=each.count + 1) if each.holder == given[0] else each
        for each in changed.leases
    )
    return msgspec.structs.replace(changed, leases=leases)


def skipped_lost(state: QueueState, offsets: Any, *given: Any) -> QueueState:
    changed = _with_leases(state, offsets, *given)
    kept = tuple(each for each in changed.leases if each.count)
    return msgspec.structs.replace(changed, leases=kept)


def all_left_out(state: QueueState, end: int, *_: Any) -> QueueState:
    gone = range(state.next, end)
    return _with_settled(msgspec.structs.replace(state, next=max(state.next, end)), gone)


def nacks_lost(self: SharedConsumer, record: Any, **_: Any) -> bool:
    self._held.settle(record.record.partition, [record.record.offset])
    return False


def not_extended(*_: object) -> None:
    pass


_with_settled = queue_state.with_settled
_with_leases = queue_state.with_leases
_available = queue_state.available

BUGS: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "fence left out": (HeldDeliveries, "_is_ours", no_fence),
    "cursor before gap": (held_deliveries, "with_settled", cursor_before_gap),
    "gaps forgotten": (held_deliveries, "with_settled", gaps_forgotten),
    "leases ignored": (queue_leasing, "available", leases_ignored),
    "times ignored": (queue_leasing, "available", times_ignored),
    "keys ignored": (queue_leasing, "available", keys_ignored),
    "deliveries counted twice": (queue_leasing, "with_leases", counted_twice),
    "skipped records lost": (queue_leasing, "with_leases", skipped_lost),
    "wanted and left out": (queue_leasing, "passed_over", all_left_out),
    "nacks lost": (SharedConsumer, "nack", nacks_lost),
    "lease not renewed": (SharedConsumer, "extend", not_extended),
    "deliveries not counted": (queue_leasing, "with_leases", not_counted),
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
