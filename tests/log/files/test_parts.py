"""An append to several partitions of which one is unavailable."""

from pathlib import Path

import pytest

from strandline.values import Event, UnavailableError, partition_for_key
from tests.logs import file_log


def keys_of_both() -> list[str]:
    return [next(k for k in map(str, range(99)) if partition_for_key(k, 2) == p) for p in (0, 1)]


@pytest.mark.parametrize("warm", [0, 2])
def test_a_durable_append_to_several_partitions_is_durable_when_it_returns(
    tmp_path: Path, warm: int
) -> None:
    events = [Event("order.created", key=key) for key in keys_of_both()]
    with file_log(str(tmp_path / "log")) as log:
        log.create_topic("orders", partitions=2)
        for _ in range(warm):
            log.append_many("orders", events)

        log.append_many("orders", events, durability="durable")

        assert [log.marks("orders", p).durable for p in (0, 1)] == [warm + 1] * 2


@pytest.mark.parametrize("warm", [0, 2])
def test_what_was_not_taken_comes_back_and_the_rest_is_stored(tmp_path: Path, warm: int) -> None:
    keys = keys_of_both()
    events = [Event("order.created", number, key=keys[number % 2]) for number in range(6)]
    with file_log(str(tmp_path / "log"), lock_timeout_s=0.05) as log:
        log.create_topic("orders", partitions=2)
        for _ in range(warm):
            log.append_many("orders", events)
        before = [log.marks("orders", p).high for p in (0, 1)]
        with file_log(str(tmp_path / "log"), exclusive=True) as owner:
            owner.append("orders", Event("mine"), partition=1)

            with pytest.raises(UnavailableError) as caught:
                log.append_many("orders", events)

        assert caught.value.write == [events[1], events[3], events[5]]
        log.append_many("orders", caught.value.write)

        stored = [[record.payload for record in log.read("orders", p, before[p])] for p in (0, 1)]
        assert stored == [[0, 2, 4], [None, 1, 3, 5]]
