"""A broker that returns no offset for the end of a partition."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from confluent_kafka import OFFSET_INVALID

import strandline as sl
from strandline.stores.kafka.clients import KafkaClients

pytestmark = [pytest.mark.slow, pytest.mark.heavy]


def test_an_end_that_comes_without_an_offset_is_asked_for_again(
    new_url: Callable[[], str],
) -> None:
    # What the client returns while a partition changes its leader.
    nothing = SimpleNamespace(offset=OFFSET_INVALID)
    with sl.open(new_url()) as log:
        log.create_topic("t")
        log.append("t", sl.Event("order", 0))
        name, asked = "_answers", itertools.count()
        answered = getattr(KafkaClients, name)

        def lacking(clients: KafkaClients, ask: Any) -> dict[Any, Any]:
            found: dict[Any, Any] = answered(clients, ask)
            is_keyed = getattr(next(iter(found)), "topic", ".log").endswith(".log")
            return found if is_keyed or next(asked) >= 4 else dict.fromkeys(found, nothing)

        with mock.patch.object(KafkaClients, name, lacking):
            log.append("t", sl.Event("order", 1), expected_offset=1)
            assert [each.payload for each in log.read("t", 0, 0)] == [0, 1]

        assert next(asked) > 4
