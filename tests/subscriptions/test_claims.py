"""One reader at a time for each name and partition, in one process and in several."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

import strandline as sl
from strandline.log.claims import LocalClaims
from strandline.stores.claim_locks import LockClaims
from tests.logs import OpenAgain, opened_again
from tests.subscriptions.doubles import fill

PROGRAM = Path(__file__).parent / "held_consumer.py"


@pytest.fixture(params=["memory", "file", "sqlite"])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenAgain]:
    with opened_again(request.param, tmp_path) as open_log:
        open_log().create_topic("orders", partitions=2)
        yield open_log


def test_a_second_consumer_of_one_name_is_refused_until_the_first_is_closed(
    open_again: OpenAgain,
) -> None:
    log, other = open_again(), open_again()
    first = log.consumer("orders", "worker")

    with pytest.raises(sl.UnavailableError, match="pid=") as caught:
        other.consumer("orders", "worker", partitions=[1])

    fields = caught.value.fields
    assert (fields["pid"], fields["host"]) == (os.getpid(), os.uname().nodename)
    assert (fields["consumer"], fields["topic"], fields["partition"]) == ("worker", "orders", 1)
    first.close()
    other.consumer("orders", "worker").close()


def test_other_names_tenants_topics_and_partitions_are_free(open_again: OpenAgain) -> None:
    log, other = open_again(), open_again()
    log.create_topic("others")

    with contextlib.ExitStack() as held:
        for consumer in (
            log.consumer("orders", "worker", partitions=[0]),
            other.consumer("orders", "worker", partitions=[1]),
            other.consumer("orders", "worker2"),
            other.consumer("orders", "worker", tenant="acme"),
            other.consumer("others", "worker"),
        ):
            held.enter_context(consumer)


def test_partitions_that_cannot_be_had_leave_the_assignment_as_it_was(
    open_again: OpenAgain,
) -> None:
    log, other = open_again(), open_again()
    with log.consumer("orders", "worker", partitions=[0]) as one:
        two = other.consumer("orders", "worker", partitions=[1])
        for wanted, error in (([1], sl.UnavailableError), ([1, 7], sl.InvalidError)):
            with pytest.raises(error):
                one.assign(wanted)
        fill(log, "orders", 0, 1)

        assert one.assigned() == [0]
        assert one.next(0.0) is not None
        two.close()
        one.assign([1])
        other.consumer("orders", "worker", partitions=[0]).close()


def test_a_log_that_is_closed_and_a_consumer_that_is_dropped_hold_nothing(
    open_again: OpenAgain,
) -> None:
    log = open_again()
    dropped = log.consumer("orders", "dropped")
    del dropped
    log.consumer("orders", "dropped").close()

    kept = log.consumer("orders", "kept")
    another = open_again()
    if another is not log:
        log.close()
        another.consumer("orders", "kept").close()
    kept.close()


def test_a_consumer_that_could_not_be_made_holds_nothing(open_again: OpenAgain) -> None:
    log = open_again()
    fill(log, "orders", 1, 5)
    log.ack("orders", "worker", 1, 1)
    log.trim("orders", 1, 3, force=True)

    with pytest.raises(sl.TrimmedError):
        log.consumer("orders", "worker")

    log.seek("orders", "worker", 1, 3)
    log.consumer("orders", "worker").close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_killed_holder_lets_go_at_once(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}:{tmp_path / 'events'}"
    with sl.open(url) as log:
        log.create_topic("orders", partitions=2)
        holder = subprocess.Popen(
            [sys.executable, PROGRAM, url, "worker", "1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(sl.UnavailableError) as caught:
                log.consumer("orders", "worker", group=False)
            log.consumer("orders", "worker", partitions=[0]).close()
            holder.kill()
            holder.wait()

        assert caught.value.fields["pid"] == holder.pid
        log.consumer("orders", "worker", group=False).close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_child_of_a_fork_holds_nothing_of_its_parent(tmp_path: Path, scheme: str) -> None:
    with sl.open(f"{scheme}:{tmp_path / 'events'}") as log:
        log.create_topic("orders")
        consumer = log.consumer("orders", "worker")
        ready, gate = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            os.write(ready[1], b"!")
            os.read(gate[0], 1)
            os._exit(0)
        os.read(ready[0], 1)

        consumer.close()
        log.consumer("orders", "worker").close()

        os.write(gate[1], b"!")
        os.waitpid(child, 0)
        for each in (*ready, *gate):
            os.close(each)


class Powerless:
    """A claim that excludes no other reader."""

    def release(self) -> None:
        """There is nothing to give up."""


def test_claims_that_exclude_no_other_are_found_out(open_again: OpenAgain) -> None:
    claims = {"memory": LocalClaims}.get(open_again().describe().backend, LockClaims)
    with (
        mock.patch.object(claims, "take", return_value=Powerless()),
        pytest.raises(pytest.fail.Exception),
    ):
        test_a_second_consumer_of_one_name_is_refused_until_the_first_is_closed(open_again)
