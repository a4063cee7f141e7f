"""Backup and restore of whole logs. Each end is a URL, or a path."""

import os
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, TypeAlias

from strandline.log.copies import CopiedPartition, PartitionKey, ends_at
from strandline.opening import copy_log, default_url, open_log, place_url
from strandline.values import CorruptError, InvalidError, Mode, Topic, us_from_datetime
from strandline.values.arguments import check_whole

LogLocation: TypeAlias = str | os.PathLike[str]
"""A log by its URL, or by the path of its directory or database."""

PartitionName: TypeAlias = str | Topic | tuple[str | Topic, int]
"""A topic, for its partition 0, or a topic and one of its partitions."""


class LogCopy(NamedTuple):
    """A copy that was made, read back and verified."""

    source: str
    target: str
    partitions: tuple[CopiedPartition, ...]
    """The contents of each partition."""


def backup(target: LogLocation, *, url: LogLocation | None = None) -> LogCopy:
    """Copy a whole log to a new place, while other processes write to it, and verify the copy.

    `url` is the log; None means the log of the environment, as for `open`. A target
    that is a path becomes a log of the same kind. The copy is a log: open it to read it.

    Nothing is overwritten: InvalidError if the target exists. CorruptError if the log, and
    so the copy, is damaged; the copy is kept, because it may be the only one.
    """
    source = default_url() if url is None else place_url(url)
    return _copied(source, place_url(target, like=source), {})


def restore(
    source: LogLocation,
    url: LogLocation | None = None,
    *,
    until: Mapping[PartitionName, int] | datetime | None = None,
) -> LogCopy:
    """Restore a backup as a new log at `url`, completely or up to a point, and verify it.

    `until` is a point in time, and leaves out records appended at that time or later; or it
    maps partitions to the offsets before which they end: `{"orders": 5}` does so for
    partition 0 of a topic, `{("orders", 2): 5}` for partition 2. The new log has the
    identity of the old one, and begins a new epoch in each partition: a reader that has read
    further than it gets DivergedError. Raises the errors of `backup`, and InvalidError for a
    partition or an offset that does not exist.
    """
    moment_us = us_from_datetime(until) if isinstance(until, datetime) else None
    wanted = [] if until is None or isinstance(until, datetime) else _checked_ends(until)
    found = place_url(source)
    with open_log(found, mode=Mode.READ) as log:
        ends = {(log.topic(topic).id, partition): end for topic, partition, end in wanted}
        if moment_us is not None:
            ends = ends_at(log, moment_us)
    target = default_url() if url is None else place_url(url, like=found)
    return _copied(found, target, ends)


def _checked_ends(until: Mapping[PartitionName, int]) -> list[tuple[str | Topic, int, int]]:
    """Return topics, partitions and their ends; InvalidError for anything else."""
    if not isinstance(until, Mapping):
        raise InvalidError(
            "until is a datetime, or a Mapping of partitions to offsets", until=until
        )
    ends = []
    for name, end in until.items():
        pair = name if isinstance(name, tuple) else (name, 0)
        is_path = isinstance(pair[0], str) and "/" in pair[0]
        if len(pair) != len(("topic", "partition")) or is_path:
            raise InvalidError(
                'until names a topic, for its partition 0, or a topic and a partition as ("a", 1)',
                name=name,
            )
        ends.append((pair[0], check_whole("partition", pair[1]), check_whole("until", end)))
    return ends


def _copied(source: str, target: str, ends: Mapping[PartitionKey, int]) -> LogCopy:
    partitions = tuple(copy_log(source, target, ends=ends))
    with open_log(target, mode=Mode.READ) as log:
        for topic in dict.fromkeys(each.topic for each in partitions):
            for report in log.verify(topic):
                if not report.is_sound:
                    raise CorruptError(
                        "the copy has damaged records, as its log has: verify the two",
                        file=target,
                        position=None,
                        source=source,
                        topic=topic.name,
                        partition=report.partition,
                        reason=str(report.findings[0].reason),
                    )
    return LogCopy(source, target, partitions)
