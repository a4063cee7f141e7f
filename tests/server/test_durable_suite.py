"""The public conformance suite of Durable Streams, against our server."""

from pathlib import Path

import pytest

from strandline.server.settings import ServerSettings
from tests.logs import memory_log
from tests.server.durable_suite.installed import installed_suite, run_suite
from tests.server.served import Served

KNOWN_FAILURES: frozenset[str] = frozenset()
NOT_RUN = frozenset(
    f"Reserved subscription APIs {name}"
    for name in (
        "adds and removes explicit subscription streams",
        "creates and idempotently re-confirms a webhook subscription",
        "pull-wake claim, ack, and release use subscription-scoped leases",
        "rejects unsafe webhook URLs",
        "webhook callback acks and fences stale wake generations",
        "webhook synchronous done auto-acks the wake snapshot",
    )
)
"""An optional part of the protocol, which the suite runs only when asked to."""


@pytest.mark.heavy
def test_the_server_passes_the_public_suite_of_durable_streams(tmp_path: Path) -> None:
    installed_suite()
    log = memory_log()
    served = Served(log, ServerSettings(long_poll_s=1.0))
    try:
        found = run_suite(served.url, tmp_path / "report.json")
    finally:
        served.stop()
        log.close()

    assert found.failed.keys() == KNOWN_FAILURES, found.failed
    assert found.skipped == NOT_RUN
    assert len(found.passed) == 332
