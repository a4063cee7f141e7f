"""Every rule of a log, on a real NATS server with JetStream."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from strandline.log import Log
from strandline.stores.jetstream import JetStreamStore
from strandline.testing import FakeClock, conformance
from tests.stores.jetstream.server import NatsServer

OpenLog = Callable[..., Log]


@pytest.fixture
def open_log(new_url: Callable[[], str], server: NatsServer) -> Iterator[OpenLog]:
    with contextlib.ExitStack() as opened:

        def open_one(*, clock: FakeClock | None = None, **options: Any) -> Log:
            store = JetStreamStore(new_url(), clock=clock, system_url=server.system_url)
            return opened.enter_context(Log(store, clock=clock, **options))

        yield open_one


def marked(rules: Iterable[Any]) -> list[Any]:
    """Return the rules, all heavy until the hang is found that was seen on a loaded machine."""
    return [
        pytest.param(rule, id=name, marks=pytest.mark.heavy)
        for rule in rules
        for name in (conformance.name_of(rule),)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("rule", marked(conformance.RULES))
def test_rule(rule: conformance.Rule, open_log: OpenLog) -> None:
    rule(open_log)


@pytest.mark.slow
@pytest.mark.parametrize("rule", marked(conformance.TIMED_RULES))
def test_timed_rule(rule: conformance.TimedRule, open_log: OpenLog) -> None:
    rule(lambda clock: open_log(clock=clock), FakeClock())
