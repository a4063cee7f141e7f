"""The programs of the how-to for other languages, run as a person would run them."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.log import Log
from strandline.server import ServerSettings, TokenTable
from strandline.values import Event
from tests.logs import memory_log
from tests.server.served import Served

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "use-it-from-another-language.md"

pytestmark = pytest.mark.slow


@pytest.fixture
def log() -> Iterator[Log]:
    with memory_log() as log:
        yield log


@pytest.fixture
def world(log: Log) -> Iterator[dict[str, str]]:
    """A server that needs a token, as the variables of a program name it."""
    secret, _ = TokenTable(log).create(["read", "append", "admin"])
    served = Served(log, ServerSettings(needs_token=True))
    yield {**os.environ, "S": served.url, "STRANDLINE_TOKEN": secret}
    served.stop()


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed, and the page has programs for it")
    return found


def blocks(section: str, language: str) -> list[str]:
    """Return the programs in a section of the page."""
    text = PAGE.read_text().partition(f"\n## {section}")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def ran(
    command: list[str], folder: Path, env: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    options: dict[str, Any] = {"env": env, "cwd": folder, "capture_output": True, "text": True}
    return subprocess.run(command, timeout=300, check=False, **options)


def test_the_commands_of_curl_append_read_and_follow(
    log: Log, world: dict[str, str], tmp_path: Path
) -> None:
    program("curl")
    (commands,) = blocks("curl", "sh")
    once, _, endless = commands.partition("# Until Ctrl-C")

    done = ran([program("bash"), "-euc", once], tmp_path, world)
    follow = once.split("\n\n")[0] + "\n" + endless.partition("\n")[2].replace("curl", "curl -m 2")
    followed = ran([program("bash"), "-uc", follow], tmp_path, world)

    assert done.returncode == 0, done.stderr
    assert '"payload":{"id":7}' in done.stdout
    assert [each.payload for each in log.read("orders", 0, 0)] == [{"id": 7}]
    assert "event: record" in followed.stdout
    assert "event: caught_up" in followed.stdout


def test_the_commands_of_curl_need_no_token_where_the_server_needs_none(
    log: Log, tmp_path: Path
) -> None:
    (commands,) = blocks("curl", "sh")
    served = Served(log, ServerSettings())
    env = {name: value for name, value in os.environ.items() if name != "STRANDLINE_TOKEN"}

    done = ran(
        [program("bash"), "-euc", commands.partition("# Until Ctrl-C")[0]],
        tmp_path,
        {**env, "S": served.url},
    )
    served.stop()

    assert done.returncode == 0, done.stderr
    assert [each.payload for each in log.read("orders", 0, 0)] == [{"id": 7}]


def test_the_module_of_javascript_appends_and_follows(
    log: Log, world: dict[str, str], tmp_path: Path
) -> None:
    log.create_topic("orders")
    log.append("orders", Event("placed", {"id": 6}))
    (tmp_path / "page.mjs").write_text("\n".join(blocks("JavaScript", "js")) + "process.exit(0);\n")

    done = ran([program("node"), "page.mjs"], tmp_path, world)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["0 placed { id: 6 }", "1 placed { id: 7 }"]


@pytest.mark.heavy
def test_the_program_of_go_reads_page_after_page(
    log: Log, world: dict[str, str], tmp_path: Path
) -> None:
    go = program("go")
    (text,) = blocks("Go", "go")
    (tmp_path / "follow.go").write_text(text)
    log.create_topic("orders")
    log.append("orders", Event("placed", {"id": 7}))
    env = {
        **world,
        "GOCACHE": str(tmp_path / "cache"),
        "GOFLAGS": "-mod=mod",
        "HOME": str(tmp_path),
    }
    built = ran([go, "build", "-o", "follow", "follow.go"], tmp_path, env)
    assert built.returncode == 0, built.stderr

    with subprocess.Popen(
        [str(tmp_path / "follow")], env=env, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        log.append("orders", Event("paid", 8))
        second = running.stdout.readline()
        running.kill()

    assert (first, second) == ('0 placed {"id":7}\n', "1 paid 8\n")


def test_the_commands_that_share_work_do_what_the_page_says(log: Log, tmp_path: Path) -> None:
    program("curl"), program("jq")
    (commands,) = blocks("Share the work", "sh")
    served = Served(log)
    try:
        env = {**os.environ, "S": served.url}
        done = ran([program("bash"), "-euc", commands], tmp_path, env)
    finally:
        served.stop()

    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"status":"ok"') == 3
    assert '"lost"' not in done.stdout
    (lag,) = log.consumers("jobs")
    assert (lag.consumer, lag.cursor) == ("resizers", 1)
