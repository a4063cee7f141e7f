"""Which tests one process runs, one after the other, and what happens once one has died."""

import fnmatch
from collections.abc import Sequence
from typing import Any

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

SPARK_PAGES = [
    "docs/howto/spark-*.md",
    "docs/guides/iot-readings.md",
    "docs/guides/spark-*.md",
    "docs/tutorial.md",
]

SPARK = "spark"
# Tests of Spark that need no session, or processes with one of their own.
_WITHOUT_SESSION = (
    *("test_batch_options", "test_cluster", "test_driver_kills", "test_java", "test_pythons"),
    *("test_rows", "test_sink", "test_sink_fingerprint", "test_sink_kills", "test_sink_options"),
    *("test_sink_rows", "test_stream_options", "test_spark_pages"),
    *("test_causes", "test_file_paths", "test_kafka_options", "test_trimmed_topics"),
)


BROWSED = "test_console_screens.py"
"""Its tests share a browser, whose driver keeps an event loop on the thread of the tests."""


ENGINES = ("postgres", "jetstream", "kafka")
"""The tests of each share its servers."""


def unit_of(nodeid: str) -> str:
    """Return what stays in one process: all that shares Spark, a browser or an engine, a page, or
    a test alone."""
    path = nodeid.partition("::")[0]
    if path.startswith("tests/stores/"):
        for engine in ENGINES:
            if f"/{engine}/" in path or ("/test_engine_" in path and f"[{engine}" in nodeid):
                return engine
        return nodeid
    name = path.rpartition("/")[2]
    if name == BROWSED:
        return path
    if path.endswith(".md"):
        return SPARK if any(fnmatch.fnmatchcase(path, each) for each in SPARK_PAGES) else path
    return SPARK if SPARK in path and name.removesuffix(".py") not in _WITHOUT_SESSION else nodeid


class Together(LoadScopeScheduling):  # type: ignore[misc] # xdist tells no types.
    """Leaves each unit to one process.

    A test that ended its process has failed and is not run again. The process that takes the
    place of one that ended may collect other tests than it did, because of a file that a test has
    fetched meanwhile: it is given units of which it knows every test.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        # It would count what is still to be done among all that was ever begun.
        units = self.assigned_work[node]
        unit = unit_of(self.registered_collections[node][item_index])
        if all(units[unit].values()):
            del units[unit]

    def remove_node(self, node: Any) -> str | None:
        units: dict[str, dict[str, bool]] = self.assigned_work.pop(node)
        left = [(unit, test) for unit in units.values() for test in unit if not unit[test]]
        if not left:
            return None
        unit, test = left[0]
        unit[test] = True
        self.workqueue.update({name: u for name, u in units.items() if not all(u.values())})
        for other in self.nodes:
            self._reschedule(other)
        return test

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        self.registered_collections.setdefault(node, list(collection))

    def _reschedule(self, node: Any) -> None:
        # One that takes the place of another may be collecting yet.
        if node in self.registered_collections:
            super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        collected = self.registered_collections[node]
        if collected != self.collection:
            known = set(collected)
            fitting = (name for name, unit in self.workqueue.items() if known.issuperset(unit))
            name = next(fitting, None)
            if name is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(name, last=False)
        super()._assign_work_unit(node)
