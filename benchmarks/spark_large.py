"""`spark.hot10m`, `spark.planning`, `spark.start`: large topics, and what a command costs."""

import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.growth import steps_of
from benchmarks.sizes import Sizes
from benchmarks.spark import session
from benchmarks.spark_audit import fill
from strandline.clock import SystemClock
from strandline.opening import open_log
from strandline.spark.garbage_collection import collector_paused
from strandline.spark.source.places import SourcePartition
from strandline.spark.source.splits import Extent, Split, plan
from strandline.tiering import CopiedSegment, open_store
from strandline.tiering.catalogue import made_segments_topic, saved_catalogue
from strandline.tiering.cold_segments import ColdSegments
from strandline.tiering.routing import catalogue_partition
from strandline.tiering.segment import UserPartition, kind_of, payload_of
from strandline.values import Epoch, Event, Mode, Offset, Segment, Topic

COLUMNS = "kind", "key", "_timestamp"
#: What a command may take besides its work, in seconds.
START_S = 8.0
#: What planning a read may take, in seconds.
PLANNING_S = 1.0
_STEPS = 30_000


# --- spark.hot10m ---


def hot(scratch: Path, *, events: int) -> Mapping[str, Contender]:
    """Return a batch read of three columns of a topic that was never tiered, beside Parquet."""
    spark = session(scratch.parent)
    url = f"file:{scratch / 'log'}"
    with sl.open(url) as log:
        fill(log, events)
    source = spark.read.format("strandline").option("subscribe", "events")
    source = source.option("columns", ",".join(COLUMNS))
    plain = str(scratch / "plain")
    source.load(url).write.option("compression", "zstd").parquet(plain)
    return {
        "ours": partial(_read, partial(source.load, url), events),
        "native": partial(_read, partial(spark.read.parquet, plain), events),
    }


def _read(frame: Any, events: int) -> float:
    started = now()
    rows: DataFrame = frame()
    assert rows.where("kind <> 'none' and key > 'a' and _timestamp is not null").count() == events
    return events / (now() - started)


# --- spark.planning ---


def planning(scratch: Path, *, objects: int) -> Mapping[str, Contender]:
    """Return how long it takes to plan a read of so many cold objects, in s.

    Only the catalogue has them: planning opens none. Ten times a tenth says whether it is linear.
    """
    urls = [_with_copies(scratch / str(count), count) for count in (objects, objects // 10)]
    return {
        "ours": partial(_plan_s, urls[0], objects),
        "wanted": lambda: PLANNING_S,
        "tenth": lambda: 10 * _plan_s(urls[1], objects // 10),
    }


def _with_copies(path: Path, count: int) -> str:
    url = f"file:{path}"
    steps = steps_of(count)
    with sl.open(url) as log:
        topic = made_segments_topic(log)
        place = steps[0].place
        parts = log.describe_topic(topic).settings.partitions
        number = catalogue_partition(*place.identity, parts)
        for at in range(0, len(steps), _STEPS):
            events = [Event(kind_of(step), payload_of(step)) for step in steps[at : at + _STEPS]]
            log.append_many(topic, events, partition=number)
        with saved_catalogue(log) as catalogue:
            catalogue.follow([place])
    return url


class _Copies:
    """The part of a log that planning uses: the runs of records."""

    def __init__(self, runs: list[Segment]) -> None:
        self._runs = runs

    def segments(self, topic: Topic, partition: int) -> list[Segment]:  # noqa: ARG002 # There is one.
        return self._runs


def _plan_s(url: str, objects: int) -> float:
    place = steps_of(1)[0].place
    topic = Topic(id=SystemClock().new_id(), name=place.topic)
    started = now()
    splits = _splits(url, place, topic)
    elapsed_s = now() - started
    assert len(splits) == objects
    return elapsed_s


@collector_paused()
def _splits(url: str, place: UserPartition, topic: Topic) -> list[Split]:
    """Plan as a reader does it in Spark's planner."""
    with open_log(url, mode=Mode.READ) as log:
        epochs = [Epoch(0, place.topic_id, Offset(0))]
        copies = ColdSegments(log, open_store).reach(place, epochs, 0)
    read: Any = _Copies([_run_of(each) for each in copies])
    extent = Extent(SourcePartition(topic, 0), 0, copies[-1].end)
    return plan(read, [extent], records_max=copies[0].end - copies[0].start)


def _run_of(copy: CopiedSegment) -> Segment:
    return Segment(
        *(Offset(copy.start), Offset(copy.end), copy.record_bytes, copy.first_us, copy.last_us),
        is_sealed=True,
        location=copy.location,
    )


# --- spark.start ---


def starting(scratch: Path) -> Mapping[str, Contender]:
    """Return how long a command takes over a topic with nothing to do, in s."""
    url = f"file:{scratch / 'log'}"
    with sl.open(url) as log:
        fill(log, 10)
    return {"ours": partial(_command_s, url), "wanted": lambda: START_S}


def _command_s(url: str) -> float:
    command = [sys.executable, "-m", "strandline", "pipeline", "audit", "events", "--url", url]
    started = now()
    subprocess.run(command, check=True, capture_output=True)
    return now() - started


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries, with rounds of these sizes."""
    return (
        Entry(
            name="spark.hot10m",
            unit="rows/s",
            contenders=partial(hot, events=sizes.audit_events),
            bars={"native": 0.5},
        ),
        Entry(
            name="spark.planning",
            unit="s",
            contenders=partial(planning, objects=sizes.cold_objects),
            bars={"wanted": 1.0, "tenth": 0.8},
        ),
        Entry(name="spark.start", unit="s", contenders=starting, bars={"wanted": 1.0}),
    )
