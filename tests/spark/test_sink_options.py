"""Each option of a write, and what is refused."""

from pathlib import Path

import pytest
from pyspark import TaskContext

from strandline.opening import staging_path
from strandline.spark.sink.batch_identity import BATCH, QUERY, BatchIdentity, streaming_identity
from strandline.spark.sink.settings import batch_settings, check_append, stream_settings
from strandline.values import Durability, InvalidError

PATH = {"path": "file:/log"}


def test_without_options_rows_are_durable_and_global() -> None:
    settings = batch_settings(PATH)

    assert settings.durability is Durability.DURABLE
    assert (settings.topic, settings.tenant, settings.app, settings.version) == (None,) * 4


def test_options_are_known_by_any_spelling() -> None:
    given = {"TXNAPPID": "a", "txnversion": "7", "Durability": "WRITTEN", "tenant": "acme"}
    settings = batch_settings({**PATH, **given, "topic": "t"})

    assert (settings.app, settings.version, settings.tenant, settings.topic) == (
        "a",
        7,
        "acme",
        "t",
    )
    assert settings.durability is Durability.WRITTEN


def test_rows_that_are_inserted_into_a_view_go_to_the_topic_that_it_reads() -> None:
    assert batch_settings({**PATH, "subscribe": "t"}).topic == "t"


def test_a_relative_path_is_one_for_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert batch_settings({"path": "sqlite:log.db"}).url == f"sqlite:{tmp_path / 'log.db'}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topics": "t"}, "did you mean topic"),
        ({"txnApp": "a"}, "did you mean txnAppId"),
        ({"startingOffsets": "earliest"}, "for reading alone"),
        ({"INCLUDEMETADATA": "true"}, "for reading alone"),
        ({"nothing": "x"}, "no such option"),
        ({"topic": " "}, "blank"),
        ({"subscribe": "a,b"}, "into one topic"),
        ({"subscribe": "a", "topic": "a"}, "contradict"),
        ({"durability": "applied"}, "durability is one of durable, written"),
        ({"tenant": "../x"}, "tenant name"),
        ({"txnAppId": "a"}, "give both or neither"),
        ({"txnVersion": "1"}, "give both or neither"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "whole number"),
        ({"txnAppId": "a", "txnVersion": str(2**63)}, "whole number"),
        ({"txnAppId": "\0job:1", "txnVersion": "1"}, "control character"),
        ({"path": "memory:"}, "belongs to one process"),
    ],
)
def test_what_means_nothing_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        batch_settings({**PATH, **given})


def test_a_stream_has_a_name_but_numbers_its_batches_itself() -> None:
    given = {**PATH, "checkpointLocation": "/x", "queryName": "q", "txnAppId": "a"}
    assert stream_settings(given).app == "a"
    with pytest.raises(InvalidError, match="numbers its batches by itself"):
        stream_settings({**given, "txnVersion": "1"})


def test_only_appending_is_allowed() -> None:
    check_append(overwrite=False)
    with pytest.raises(InvalidError, match="only ever appended"):
        check_append(overwrite=True)


def test_staged_rows_lie_beside_the_topics() -> None:
    assert staging_path("file:/logs/a") == "/logs/a/staging"
    assert staging_path("sqlite:/logs/a.db") == "/logs/a.db-staging"


class Task:
    """The context that Spark gives a task."""

    def __init__(self, **properties: str) -> None:
        self._properties = properties

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 # Spark's.
        return self._properties.get(name)


def test_spark_passes_which_batch_a_task_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(**{QUERY: "q-1", BATCH: "42"})
    monkeypatch.setattr(TaskContext, "get", staticmethod(lambda: task))

    assert streaming_identity(None) == BatchIdentity("q-1", 42)
    assert streaming_identity("mine") == BatchIdentity("mine", 42)


def test_a_task_that_does_not_know_its_batch_is_refused() -> None:
    assert TaskContext.get() is None
    with pytest.raises(InvalidError, match="txnAppId and txnVersion instead"):
        streaming_identity("mine")
