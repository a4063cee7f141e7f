"""The steps of the how-to of Durable Streams work as written."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from tests.logs import memory_log
from tests.server.durable_suite.installed import installed_suite
from tests.server.served import Served

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "durable-streams.md"


@pytest.fixture
def log() -> Iterator[Log]:
    log = memory_log()
    yield log
    log.close()


@pytest.fixture
def served(log: Log) -> Iterator[Served]:
    served = Served(log)
    yield served
    served.stop()


def code(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="the commands of the page are curl's")
def test_the_commands_of_curl_do_what_the_page_says(served: Served, log: Log) -> None:
    done = subprocess.run(
        [shutil.which("bash") or "", "-euc", code("sh")],
        env={**os.environ, "S": served.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert '[{"says": "hello"},{"says": "how"},{"says": "are you"},{"says": "fine"}]' in done.stdout
    assert '"streamClosed":true' in done.stdout
    assert [each.name for each in log.topics()] == ["chats..42", "chats..42..draft"]


@pytest.mark.heavy
def test_the_client_of_javascript_does_what_the_page_says(served: Served) -> None:
    place = installed_suite()
    script = place / "page.mjs"
    script.write_text(code("js"))
    done = subprocess.run(
        [shutil.which("node") or "", script.name],
        cwd=place,
        env={**os.environ, "S": served.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "hello\ngoodbye\n"), done.stderr
