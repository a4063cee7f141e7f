"""What every test shares: settings, a look at what it leaves behind, servers."""

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

if TYPE_CHECKING:
    from tests.stores.engines import EngineServers

HYPOTHESIS_HOME = Path(__file__).parent.parent / ".cache" / "hypothesis"

set_hypothesis_home_dir(HYPOTHESIS_HOME)

# Hypothesis would repeat the same examples for ever where CI is set, and its time
# limit per example would turn a busy machine into a failure.
settings.register_profile(
    "strandline",
    database=DirectoryBasedExampleDatabase(HYPOTHESIS_HOME / "examples"),
    deadline=None,
    derandomize=False,
    print_blob=True,
)
settings.load_profile("strandline")


def _handler(number: int) -> object:
    """Return what handles a signal; Spark's own handler, of a session that stays, is as none."""
    found = signal.getsignal(number)
    is_of_spark = "SparkContext" in getattr(found, "__qualname__", "")
    return signal.default_int_handler if is_of_spark else found


def _state_of_the_process() -> dict[str, object]:
    log = logging.getLogger("strandline")
    return {
        "the collector": (gc.isenabled(), gc.get_threshold()),
        "tracing": (sys.gettrace(), threading.gettrace()),
        "signals": [_handler(each) for each in (signal.SIGINT, signal.SIGTERM)],
        "logging": (log.level, log.disabled, log.propagate, len(log.handlers), log.manager.disable),
        "the folder": os.getcwd(),
    }


@pytest.fixture(autouse=True)
def leaves_the_process_as_it_was() -> Iterator[None]:
    """Fail the test that changes what later tests of the same process depend on."""
    before = _state_of_the_process()
    yield
    after = _state_of_the_process()
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert not changed, "put back what the test has changed"


@pytest.fixture(scope="session")
def servers() -> Iterator["EngineServers"]:
    """The servers of engines that the tests of this process share."""
    from tests.stores.engines import EngineServers  # noqa: PLC0415 # Clients of engines take time.

    opened = EngineServers()
    yield opened
    opened.close()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of an S3 server, which this process and those that it starts can reach."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 # Importing it takes time.

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    made = HTTPConnection(host, port)
    made.request("PUT", "/events", headers={"Host": "s3.amazonaws.com"})
    assert made.getresponse().status == 200
    made.close()
    yield f"s3://events/tier-{port}"
    server.stop()
