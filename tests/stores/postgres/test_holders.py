"""Which processes hold a log in PostgreSQL, as `holders_of` and `strandline holders` say."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

import strandline as sl
from strandline.log.claims import host_name
from strandline.log.holders import holders_of
from strandline.stores.postgres.sessions import parse_session_name, session_name
from tests.cli.program import ran
from tests.stores.postgres.outbox_writers import plain

pytestmark = pytest.mark.slow

HOLDER = """
import sys
import strandline as sl

with sl.open(sys.argv[1]) as log:
    log.append("orders", sl.Event("placed"), partition=1)
    with log.consumer("orders", "billing", partitions=[1]) as consumer:
        consumer.ack(consumer.next(timeout_s=60))
        with log.consumer("orders", "packing", shared=True):
            print("holds", flush=True)
            sys.stdin.readline()
"""


@contextmanager
def holding(url: str) -> Iterator[int]:
    """Let another process write and consume, and yield its id once it does."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "holds\n"
            yield process.pid
        finally:
            process.communicate("end\n")
    assert process.returncode == 0


def test_holders_are_the_sessions_and_members_of_this_log_alone(
    new_url: Callable[[], str],
) -> None:
    url, other = new_url(), new_url()
    with sl.open(url) as log, sl.open(other) as elsewhere:
        log.create_topic("orders", partitions=2)
        elsewhere.create_topic("orders", partitions=2)
        # That of another program, which only looks like one of ours.
        with (
            psycopg.connect(plain(url), application_name="strandline me"),
            holding(url) as pid,
            holding(other) as stranger,
        ):
            held = holders_of(log)
            shown = ran("holders", "--url", url).stdout
            document = ran("holders", "--url", url, "--json").document["holders"]

        roles = {(each.role, each.topic, each.partition, each.name) for each in held}
        assert roles >= {
            ("session", None, None, ""),
            ("consumer", "orders", 1, "billing"),
            ("worker", "orders", None, "packing"),
        }
        assert {each.pid for each in held} == {pid, os.getpid()}
        assert {each.pid for each in held if each.role != "session"} == {pid}
        assert all(each.is_live and each.since_us and each.host == host_name() for each in held)
        assert {each["pid"] for each in document} == {pid, os.getpid()}
        assert "billing" in shown
        assert "packing" in shown
        assert str(pid) in shown
        assert str(stranger) not in {str(each["pid"]) for each in document}

        assert {each.pid for each in holders_of(log)} == {os.getpid()}


def test_a_claim_names_its_holder(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as log:
        log.create_topic("orders", partitions=2)
        with holding(url) as pid:
            with pytest.raises(sl.UnavailableError) as caught:
                log.consumer("orders", "billing", partitions=[1])
            assert caught.value.fields["pid"] == pid


def test_names_fit_and_those_of_others_are_none_of_ours() -> None:
    own = parse_session_name(session_name("s" * 63))
    assert own is not None
    assert (own.pid, own.host) == (os.getpid(), host_name()[: len(own.host)])
    earlier = parse_session_name("strandline 4711 lab")
    assert earlier is not None
    assert (earlier.pid, earlier.log, earlier.host) == (4711, "", "lab")
    for other in ("", "psql", "strandline", "strandline x y z", "strandline-dash 1 2 3"):
        assert parse_session_name(other) is None
