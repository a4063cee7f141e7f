"""Every rule of a log, on a real NATS server with JetStream."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strandline.log import Log
from strandline.stores.jetstream import JetStreamStore
from strandline.testing import FakeClock, conformance
from tests.stores.jetstream.server import NatsServer

pytestmark = pytest.mark.slow

OpenLog = Callable[..., Log]


@pytest.fixture
def open_log(new_url: Callable[[], str], server: NatsServer) -> Iterator[OpenLog]:
    with contextlib.ExitStack() as opened:

        def open_one(*, clock: FakeClock | None = None, **options: Any) -> Log:
            store = JetStreamStore(new_url(), clock=clock, system_url=server.system_url)
            return opened.enter_context(Log(store, clock=clock, **options))

        yield open_one


@pytest.mark.parametrize("rule", conformance.RULES, ids=conformance.name_of)
def test_rule(rule: conformance.Rule, open_log: OpenLog) -> None:
    rule(open_log)


@pytest.mark.parametrize("rule", conformance.TIMED_RULES, ids=conformance.name_of)
def test_timed_rule(rule: conformance.TimedRule, open_log: OpenLog) -> None:
    rule(lambda clock: open_log(clock=clock), FakeClock())
