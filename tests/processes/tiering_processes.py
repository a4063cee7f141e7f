"""Processes that append to, tier, sweep, trim and read one log, and attack its catalogue."""

import random
from collections.abc import Callable
from functools import partial
from unittest import mock

import strandline as sl
from strandline.tiering import open_store, removal, sweep, tier
from strandline.tiering.catalogue import SegmentCatalogue
from strandline.values import InvalidError, TrimmedError, UnavailableError
from strandline.values.internal_topics import SEGMENTS_TOPIC
from tests.processes.report import Report

TOPIC = "t"
CATALOGUE_PARTITIONS = 8


def create(report: Report, url: str) -> None:
    """Make the log and its topic."""
    with sl.open(url) as log:
        log.create_topic(TOPIC, proof=True)
    report.say("done")


def run_workload(report: Report, url: str, store: str, seed: int, without: list[str]) -> None:
    """Do one thing after the other until killed."""
    take_out(without)
    rng = random.Random(seed)
    with _opened(url) as log:
        workload = _Workload(report, log, store, rng)
        number = 0
        while True:
            action = rng.choices(*zip(*workload.actions(), strict=True))[0]
            try:
                action()
            except UnavailableError:
                continue  # Another process holds what it needs.
            number += 1
            report.say("did", number)


def finish(report: Report, url: str, store: str, without: list[str]) -> None:
    """Move everything, sweep, and say what the log holds, before and after."""
    take_out(without)
    for _ in range(2):
        with _opened(url) as log:
            _tell(report, log)
            tier(log, TOPIC, store, piece_records=5, include_open=True, local_bytes=0)
            sweep(log, store)
    with _opened(url) as log:
        _tell(report, log)
        report.say("sound", log.verify(TOPIC)[0].is_sound)


def take_out(without: list[str]) -> None:
    """Plant bugs for the rest of this process: leave checks out."""
    if "refusal" in without:
        mock.patch("strandline.log.topic_changes.check_may_shorten", return_value=None).start()
    if "only copy" in without:
        mock.patch.object(removal, "_is_only_copy", return_value=False).start()
    if "beginning" in without:
        mock.patch.object(SegmentCatalogue, "check_whole", return_value=None).start()


def _opened(url: str) -> sl.Log:
    return sl.open(url)


def _tell(report: Report, log: sl.Log) -> None:
    low = log.marks(TOPIC, 0).low
    found = [(record.offset, record.payload["n"]) for record in log.read(TOPIC, 0, low)]
    report.say("holds", low, log.marks(TOPIC, 0).high, found)


class _Workload:
    """What one process may do."""

    def __init__(self, report: Report, log: sl.Log, store: str, rng: random.Random) -> None:
        self._report = report
        self._log = log
        self._store = store
        self._rng = rng

    def actions(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self._append, 4),
            (self._tier, 4),
            (self._sweep, 3),
            (self._shorten, 3),
            (self._trim, 1),
            (self._read, 2),
        ]

    def _append(self) -> None:
        numbers = [self._rng.getrandbits(40) for _ in range(self._rng.randrange(1, 8))]
        receipts = self._log.append_many(TOPIC, [sl.Event("k", {"n": n}) for n in numbers])
        stored = [[receipt.offset, n] for receipt, n in zip(receipts, numbers, strict=True)]
        self._report.say("appended", stored)

    def _tier(self) -> None:
        tier(
            self._log,
            TOPIC,
            open_store(self._store),
            piece_records=self._rng.randrange(1, 9),
            include_open=True,
            local_bytes=self._rng.choice([None, 0, 0, 300]),
        )

    def _sweep(self) -> None:
        sweep(self._log, self._store)

    def _shorten(self) -> None:
        """Try to take steps from the catalogue, in every way that there is."""
        topic = next((t for t in self._log.topics(internal=True) if t.name == SEGMENTS_TOPIC), None)
        if topic is None:
            return
        number = self._rng.randrange(CATALOGUE_PARTITIONS)
        high = self._log.marks(topic, number).high
        attempts: list[Callable[[], object]] = [
            partial(self._log.trim, topic, number, high),
            partial(self._log.trim, topic, number, high, force=True),
            partial(self._log.evict, topic, number, high),
            partial(self._log.apply_retention, topic),
            partial(self._log.drop_topic, topic),
        ]
        try:
            self._rng.choice(attempts)()
        except InvalidError:
            return
        self._report.say("shortened")

    def _trim(self) -> None:
        marks = self._log.marks(TOPIC, 0)
        before = self._rng.randrange(marks.low, marks.low + (marks.high - marks.low) // 4 + 1)
        self._log.trim(TOPIC, 0, before, force=True)

    def _read(self) -> None:
        low = self._log.marks(TOPIC, 0).low
        try:
            offsets = [record.offset for record in self._log.read(TOPIC, 0, low)]
        except TrimmedError:
            return  # Another process has trimmed meanwhile.
        assert offsets == list(range(low, low + len(offsets)))
