"""`strandline console`: a log of this machine in the browser, without a server."""

import contextlib
import os
import pty
import signal
import stat
import subprocess
import sys
from pathlib import Path

import httpx2
import msgspec
import pytest

import strandline as sl
from tests.cli.program import run
from tests.server.waiting import wait_until

pytestmark = pytest.mark.slow


def test_the_link_lets_in_once_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'log'}"
    with sl.open(url) as log:
        log.create_topic("orders")
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)

    process = subprocess.Popen(
        [sys.executable, "-m", "strandline", "console", url, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "BROWSER": str(browser)},
    )
    try:
        assert process.stdout is not None
        link = msgspec.json.decode(process.stdout.readline())["link"]
        wait_until(opened.exists)
        place, _, secret = link.partition("/console/#once=")
        with httpx2.Client(base_url=place, timeout=60, verify=False) as http:
            refused = http.get("/v1/topics").status_code
            own = {"origin": place}
            first = http.post("/console/session", json={"once": secret}, headers=own)
            again = http.post("/console/session", json={"once": secret}, headers=own)
            (topic,) = http.get("/v1/topics").json()["topics"]
        process.send_signal(signal.SIGINT)
        _, logged = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()

    assert opened.read_text() == link
    assert (refused, first.status_code, again.status_code) == (401, 204, 401)
    assert topic["name"] == "orders"
    assert process.returncode == 0
    assert secret not in logged.decode()


def test_a_person_at_a_terminal_reads_one_address_which_is_the_link(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'log'}"
    sl.open(url).close()
    ours, theirs = pty.openpty()

    process = subprocess.Popen(
        [sys.executable, "-m", "strandline", "console", url, "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    try:
        assert process.stdout is not None
        link = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    shown = b""
    with contextlib.suppress(OSError):  # Linux raises it where the other end is closed.
        shown = os.read(ours, 4096)
    os.close(ours)

    assert "/console/#once=" in link
    assert shown == b""


def test_a_log_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = run("console", f"file:{tmp_path / 'none'}", "--no-browser")

    assert done.code != 0
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("path", ["", "/", "/console/"])
def test_the_console_of_a_server_that_runs_is_opened_as_it_is(path: str) -> None:
    done = run("console", f"https://log.example.com{path}", "--no-browser")

    assert done.stdout == "The console: https://log.example.com/console/\n"
