"""One server of each engine for a process of the run, started when a test first needs it."""

from contextlib import ExitStack, closing
from typing import Protocol, TypeVar, cast

import pytest

from tests.stores.engine_server import NoServerError
from tests.stores.jetstream.server import NatsServer
from tests.stores.kafka.server import KafkaServer
from tests.stores.kills import MortalServer
from tests.stores.postgres.server import PostgresServer


class EngineServer(MortalServer, Protocol):
    """A server of an engine, with any number of logs."""

    def url(self, log: str | None = None, /) -> str:
        """Return where a log is."""

    def close(self) -> None:
        """Stop it, and remove what it stored."""


Server = TypeVar("Server", bound=EngineServer)

#: What tests of all engines are parametrised with.
ENGINES = [
    pytest.param(PostgresServer, id="postgres"),
    pytest.param(NatsServer, id="jetstream", marks=pytest.mark.heavy),
    pytest.param(KafkaServer, id="kafka", marks=pytest.mark.heavy),
]
#: Those that are given whole frames; their servers can be reached by a wire.
FRAMED = ENGINES[1:]


class EngineServers:
    """The servers that the tests of a process share."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._found: dict[tuple[type, str], EngineServer] = {}

    def shared(self, kind: type[Server]) -> Server:
        """Return a server that no test kills."""
        return self._one(kind, "shared")

    def mortal(self, kind: type[Server]) -> Server:
        """Return a server that tests kill; each starts it again."""
        return self._one(kind, "mortal")

    def _one(self, kind: type[Server], use: str) -> Server:
        found = self._found.get((kind, use))
        if found is None:
            # A wire has to be known to a broker from its start.
            options = {"has_wire": True} if kind is KafkaServer and use == "shared" else {}
            try:
                found = kind(**options)
            except NoServerError as error:
                pytest.skip(f"no {kind.__name__} can be started: {error}")
            self._found[kind, use] = self._opened.enter_context(closing(found))
        return cast(Server, found)

    def close(self) -> None:
        """Stop them."""
        self._opened.close()
