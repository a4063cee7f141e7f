"""Drivers that are killed at each I/O call of staging and committing, and restarted.

The supervisor is the checkpoint: it knows which batch was committed last, as Spark would.
"""

import errno
import random
import tempfile
from collections import Counter
from pathlib import Path

from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing.faulty_io import FaultyIo
from strandline.values import ConflictError, StrandlineError
from tests.processes.fork_server import ForkServer
from tests.processes.sinks import (
    CHANGES,
    PARTITIONS,
    TOPIC,
    Driver,
    flawed,
    numbers_of,
    open_sink_log,
    small_pieces,
)
from tests.processes.stores import url_in

BATCHES = 2
KILLS_PER_LOG = 30
NTH_MAX = 2000


class WrongRowsError(AssertionError):
    """A row was lost, or is there twice."""


def check(url: str, versions: int, where: str) -> None:
    """Raise WrongRowsError unless the log holds each row of these batches once."""
    with open_sink_log(url) as log:
        found = Counter(_numbers(log))
        left = _unnamed(log, url)
    wanted = Counter(n for version in range(versions) for n in numbers_of(version))
    if found != wanted:
        lost, twice = sorted((wanted - found).elements()), sorted((found - wanted).elements())
        raise WrongRowsError(f"{where}: lost {lost[:5]}, too many {twice[:5]}")
    if left:
        raise WrongRowsError(f"{where}: {left} have rows and are no segments")


def _unnamed(log: Log, url: str) -> list[str]:
    """Return the files of segments with rows that no manifest names: they would stay for ever."""
    named = {each.location for number in range(PARTITIONS) for each in log.segments(TOPIC, number)}
    found = Path(url.partition(":")[2]).glob("**/*.segment")
    return [str(each) for each in found if str(each) not in named and b'{"n"' in each.read_bytes()]


def _numbers(log: Log) -> list[int]:
    return [
        record.payload["n"]
        for partition in range(PARTITIONS)
        for record in log.read(TOPIC, partition, 0)
    ]


def create(url: str) -> None:
    """Make an empty log."""
    with open_sink_log(url) as log:
        log.create_topic(TOPIC, partitions=PARTITIONS)


class Query:
    """A query, of which drivers are killed and started."""

    def __init__(self, server: ForkServer, url: str, flaw: str | None = None) -> None:
        self._server = server
        self.url = url
        self._flaw = flaw
        self.committed = 0
        create(url)

    def live(self, end: int, seed: int, nth: int | None, *, halfway: bool = False) -> bool:
        """Start a driver, which may be killed at a call; return whether it came to its end."""
        child = self._server.start(
            "sinks:drive",
            url=self.url,
            first=self.committed,
            end=end,
            seed=seed,
            nth=nth,
            halfway=halfway,
            flaw=self._flaw,
        )
        is_ended = False
        for kind, *fields in child.messages():
            if kind == "commit":
                self.committed = fields[0] + 1
            elif kind == "survived":
                is_ended = True
            else:
                raise AssertionError(f"the driver failed by itself: {fields}")
        child.reap()
        return is_ended


def kill_each_call(
    server: ForkServer,
    scheme: str,
    *,
    first: int = 1,
    stride: int = 1,
    halfway: bool = False,
    flaw: str | None = None,
) -> int:
    """Kill a driver at every `stride`-th call and let another finish; return how many died."""
    kills = 0
    for nth in range(first, NTH_MAX, stride):
        with tempfile.TemporaryDirectory() as folder:
            query = Query(server, url_in(scheme, Path(folder)), flaw)
            is_ended = query.live(BATCHES, nth, nth, halfway=halfway)
            if not is_ended:
                kills += 1
                assert query.live(BATCHES, nth + 1, None)
            check(query.url, BATCHES, f"killed at call {nth}, halfway={halfway}")
        if is_ended:
            return kills
    raise AssertionError("the driver never came to its end")


def run(server: ForkServer, scheme: str, seed: int, kills: int = KILLS_PER_LOG) -> None:
    """Kill drivers one after the other at random calls of one query."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        query = Query(server, url_in(scheme, Path(folder)))
        died = 0
        while died < kills:
            halfway = rng.random() < 0.25
            nth = rng.randrange(1, 25 if halfway else 60)
            died += not query.live(query.committed + 3, rng.getrandbits(32), nth, halfway=halfway)
        assert query.live(query.committed + 1, seed, None)
        check(query.url, query.committed, f"seed {seed}")


def fail_each_call(
    scheme: str, error: int, *, first: int = 1, stride: int = 1, flaw: str | None = None
) -> int:
    """Fail every `stride`-th call of a batch, abort, and run it again; return how many failed."""
    for failed, nth in enumerate(range(first, NTH_MAX, stride)):
        with tempfile.TemporaryDirectory() as folder:
            url = url_in(scheme, Path(folder))
            create(url)
            io = FaultyIo(SystemIo())
            with flawed(flaw), small_pieces():
                struck = _fail(url, io, nth, error)
                driver = Driver(url, SystemIo(), nth)
                for version in range(BATCHES):
                    driver.run(version)
                driver.close()
            check(url, BATCHES, f"call {nth} failed")
        if not struck:
            return failed
    raise AssertionError("the batch never came to its end")


def _fail(url: str, io: FaultyIo, nth: int, error: int) -> bool:
    fault = io.fail(nth, error, kinds=CHANGES)
    try:
        driver = Driver(url, io, nth)
        driver.run(0)
        driver.close()
    except (OSError, StrandlineError):
        assert fault.fired
    return bool(fault.fired)


def lose_the_checkpoint(scheme: str, flaw: str | None = None) -> None:
    """Plan a batch again with more rows, as Spark does when the end of its checkpoint is lost."""
    with tempfile.TemporaryDirectory() as folder, flawed(flaw):
        url = url_in(scheme, Path(folder))
        create(url)
        driver = Driver(url, SystemIo(), 0)
        driver.run(0)
        try:
            driver.run(0, [*numbers_of(0), *numbers_of(1)])
        except ConflictError:
            driver.run(1)
        driver.close()
        check(url, BATCHES, "the checkpoint was lost")


ENOSPC, EIO = errno.ENOSPC, errno.EIO
