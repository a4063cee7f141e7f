"""What a reader that follows a log on JetStream gets, and what it asks for."""

import asyncio
import json
from collections.abc import Callable
from typing import Any
from unittest import mock

import nats
import pytest

import strandline as sl
from strandline.stores.jetstream import streams, watching
from tests.stores.jetstream.server import NatsServer

pytestmark = [pytest.mark.slow, pytest.mark.heavy]

EVENT = sl.Event("order", {"n": 1})


def test_a_reader_that_follows_asks_for_no_page(
    new_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_url()
    with sl.open(url) as log, sl.open(url) as reader:
        log.create_topic("t", value_kind="bytes")
        with reader.subscribe("t") as subscription:
            log.append("t", b"first")
            assert subscription.next(timeout_s=60.0) is not None
            pages = []
            page = streams.LogStream.page

            async def counted(self: streams.LogStream, *args: Any) -> list[streams.StoredMessage]:
                pages.append(args)
                return await page(self, *args)

            monkeypatch.setattr(streams.LogStream, "page", counted)
            for number in range(1, 20):
                # One frame, and several in one atomic batch.
                count = 1 if number % 4 else 5
                log.append_many("t", [bytes([number]) * 200_000] * count)
                for _ in range(count):
                    record = subscription.next(timeout_s=60.0)
                    assert record is not None
                    assert record.value == bytes([number]) * 200_000
            assert pages == []


def test_what_was_announced_and_then_trimmed_is_not_read(new_url: Callable[[], str]) -> None:
    url = new_url()
    with sl.open(url) as log, sl.open(url) as reader:
        log.create_topic("t")
        with reader.subscribe("t") as subscription:
            for number in range(5):
                log.append("t", sl.Event("order", {"n": number}))
                assert subscription.next(timeout_s=60.0) is not None
            log.trim("t", 0, 3)

            with pytest.raises(sl.TrimmedError):
                list(reader.read("t", 0, 2))
            assert [record.offset for record in reader.read("t", 0, 3)] == [3, 4]


def test_a_stream_that_announces_headers_alone_is_followed(
    new_url: Callable[[], str], server: NatsServer
) -> None:
    url = new_url()
    with (
        mock.patch.object(watching, "_POLL_S", 1e6),
        sl.open(url) as log,
        sl.open(url) as reader,
    ):
        topic = log.create_topic("t")
        stream = streams.LogNames(url.rpartition("/")[2]).partition(topic.id, 0)
        asyncio.run(_announce_headers(server.url(), stream))
        with reader.subscribe("t") as subscription:
            for number in range(10):
                log.append("t", EVENT)
                record = subscription.next(timeout_s=60.0)
                assert record is not None
                assert record.offset == number


async def _announce_headers(url: str, stream: str) -> None:
    """Give a stream the settings that earlier versions gave it."""
    client = await nats.connect(url)
    answer = await client.request(f"$JS.API.STREAM.INFO.{stream}", timeout=60)
    config = json.loads(answer.data)["config"]
    config["republish"]["headers_only"] = True
    update = f"$JS.API.STREAM.UPDATE.{stream}"
    changed = await client.request(update, json.dumps(config).encode(), timeout=60)
    assert json.loads(changed.data)["config"]["republish"]["headers_only"] is True
    await client.close()
