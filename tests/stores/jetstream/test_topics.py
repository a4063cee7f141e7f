"""Processes that know the topics of a log read only what has changed of them."""

import contextlib
import random
import shutil
from collections.abc import Callable
from typing import Any

import pytest

import strandline as sl
from strandline.stores.jetstream import streams
from tests.stores.jetstream.server import NatsServer

pytestmark = [pytest.mark.slow, pytest.mark.heavy]


def names(log: sl.Log) -> set[str]:
    return {each.name for each in log.topics()}


def test_a_change_of_one_topic_is_read_without_the_others(
    new_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_url()
    with sl.open(url) as log, sl.open(url) as other:
        for number in range(40):
            log.create_topic(f"t{number}")
        assert len(names(other)) == 40
        asked = []
        get = streams.LogStream.get

        async def counted(self: streams.LogStream, **body: Any) -> streams.StoredMessage | None:
            asked.append(body)
            return await get(self, **body)

        monkeypatch.setattr(streams.LogStream, "get", counted)
        log.create_topic("one-more")

        assert "one-more" in names(other)
        assert len(asked) < 20


@pytest.mark.parametrize("seed", range(3))
def test_two_processes_know_the_same_topics_whatever_each_changes(
    new_url: Callable[[], str], seed: int
) -> None:
    url, rng = new_url(), random.Random(seed)
    with sl.open(url) as one, sl.open(url) as other:
        there: dict[str, int] = {}
        for number in range(60):
            log = rng.choice([one, other])
            change = rng.choice(["create", "create", "drop", "extend"])
            if change == "create" or not there:
                there[f"t{number}"] = 1
                log.create_topic(f"t{number}")
            elif change == "drop":
                name = rng.choice(sorted(there))
                del there[name]
                log.drop_topic(name)
            else:
                name = rng.choice(sorted(there))
                there[name] += 1
                log.add_partitions(name, there[name])
            # Now and then only: the other one has several changes to read.
            if rng.random() < 0.4:
                for each in (one, other):
                    found = {
                        topic.name: each.describe_topic(topic).settings.partitions
                        for topic in each.topics()
                    }
                    assert found == there


def test_more_changes_than_are_read_one_by_one_are_all_seen(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as log, sl.open(url) as other:
        log.create_topic("first")
        assert names(other) == {"first"}
        for number in range(50):
            log.create_topic(f"t{number}")
        log.drop_topic("first")

        assert names(other) == {f"t{number}" for number in range(50)}


def test_topics_of_a_server_that_lost_its_last_changes_are_read_again() -> None:
    with contextlib.closing(NatsServer()) as server, sl.open(server.url("shop")) as log:
        log.create_topic("kept")
        server.kill()
        kept = server.folder / "kept"
        shutil.copytree(server.data, kept)
        server.start()
        for name in ("lost-1", "lost-2"):
            log.create_topic(name)
        assert names(log) == {"kept", "lost-1", "lost-2"}
        server.kill()
        shutil.rmtree(server.data)
        kept.rename(server.data)
        server.start()
        with sl.open(server.url("shop")) as other:
            other.add_partitions("kept", 3)
            for number in range(4):
                other.create_topic(f"new-{number}")

        assert names(log) == {"kept", *(f"new-{number}" for number in range(4))}
        assert log.describe_topic("kept").settings.partitions == 3
