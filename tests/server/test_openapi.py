"""The OpenAPI document is true: schemathesis tries what it allows, and what it does not."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from strandline.server.app import ENDPOINTS
from strandline.server.openapi import openapi_document
from strandline.server.settings import ServerSettings
from strandline.server.tokens import EVERY_SCOPE
from strandline.values import Event
from tests.server.served import Served

_CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance"
)


def test_the_document_names_everything_once() -> None:
    document = openapi_document(ENDPOINTS)

    names = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(names) == len(set(names)) == len(ENDPOINTS)
    for path in document["paths"].values():
        for each in path.values():
            assert each["summary"].endswith("."), each["operationId"]
            assert set(each["responses"]) >= {"401", "403", "default"}


@pytest.fixture
def served(shared_log: Log) -> Iterator[Served]:
    """A server whose streams end soon."""
    served = Served(shared_log, ServerSettings(long_poll_s=0.1, events_s=0.1))
    yield served
    served.stop()


@pytest.mark.heavy
def test_schemathesis_finds_no_answer_that_the_document_does_not_allow(
    served: Served, shared_log: Log, tmp_path: Path
) -> None:
    for kind in ("event", "bytes", "batch"):
        shared_log.create_topic(kind, value_kind=kind)
    shared_log.append("event", Event("a", 1))

    secret, _ = served.server.app.tokens.create(EVERY_SCOPE)
    found = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json"),
            *("--checks", _CHECKS, "--max-examples", "3", "--seed", "7", "--workers", "1"),
            # A stream has no end, and no one but a remote log sends msgpack.
            *("--exclude-path-regex", "/tail$|/watch$|^/v1/store/", "--request-timeout", "20"),
            *("-H", f"Authorization: Bearer {secret}"),
            *("--phases", "coverage,fuzzing", "--no-color"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=500,
        check=False,
    )

    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr
