"""`make demo`, shortened; and the check of its totals, with planted bugs."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import strandline as sl
from examples.demo.account import line
from examples.demo.plan import Plan
from examples.demo.shop import day, outcome

ROOT = Path(__file__).parents[2]
EVENTS = 2_000


def run(module: str, *arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "DEMO_EVENTS": str(EVENTS), "DEMO_FOLDER": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def audited(folder: Path) -> "subprocess.CompletedProcess[str]":
    return run("examples.demo.account", str(folder), folder=folder)


def test_a_line_of_the_account_finds_what_is_lost_repeated_and_unknown() -> None:
    found = line("orders", {1, 2, 3}, Counter([1, 1, 2, 9]))

    assert (found.lost, found.repeated, found.unknown) == (1, 1, 1)
    assert not found.balances
    assert line("orders", {1, 2}, Counter([2, 1])).balances


def test_a_day_is_the_same_each_time_and_has_its_troubles() -> None:
    plan = Plan("nowhere", EVENTS)
    offers = day(plan)

    assert offers == day(plan)
    assert len(offers) == EVENTS
    wanted = outcome(offers)
    assert wanted.late
    assert wanted.dead_lettered
    assert wanted.offered > len(wanted.ids), "some are offered twice"
    assert any(offer.is_double for offer in offers)


def test_the_log_may_be_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEMO_FOLDER", str(tmp_path))
    assert (Plan.of_environment().url, Plan.of_environment().staging) == (
        f"file:{tmp_path}/events",
        {},
    )
    monkeypatch.setenv("DEMO_URL", "postgresql://app@db/shop")

    plan = Plan.of_environment()
    plan.save()

    assert plan.url == "postgresql://app@db/shop"
    assert plan.staging == {"stagingLocation": f"file://{tmp_path}/staging"}
    assert Plan.load(str(tmp_path)) == plan


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("quick_spark")
def test_the_demo_balances_and_a_planted_loss_or_repeat_does_not(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    done = run("examples.demo", folder=folder)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "The account balances: lost 0, repeated 0" in done.stdout
    assert "killed in the middle" in done.stdout
    assert f"strandline console file:{folder / 'events'}\n" in done.stdout
    link = r"Look at it while it runs: http://127\.0\.0\.1:\d+/console/\n"
    assert re.fullmatch(link, done.stderr), "progress is for terminals only"
    assert "the slowest step" in done.stdout
    assert (folder / "run.png").read_bytes().startswith(b"\x89PNG")
    for topic in ("shop", "paid"):
        check_planted_bugs(folder, topic, tmp_path)


@pytest.mark.slow
def test_ctrl_c_ends_the_demo_without_a_traceback(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        env={**os.environ, "DEMO_EVENTS": str(EVENTS), "DEMO_FOLDER": str(tmp_path / "run")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stderr is not None
        assert demo.stderr.readline().startswith("Look at it while it runs")

        demo.send_signal(signal.SIGINT)

        assert demo.stderr.read() == "\nStopped. The next run begins from an empty folder.\n"
    assert demo.returncode == 130


def check_planted_bugs(folder: Path, topic: str, tmp_path: Path) -> None:
    lossy, doubled = tmp_path / f"lossy-{topic}", tmp_path / f"doubled-{topic}"
    shutil.copytree(folder, lossy)
    shutil.copytree(folder, doubled)
    with sl.open(f"file:{lossy / 'events'}") as log:
        assert log.trim(topic, 0, 1, force=True).removed == 1
    with sl.open(f"file:{doubled / 'events'}") as log:
        first = next(iter(log.read(topic, 0, 0)))
        log.append(topic, first.event)

    lost, repeated = audited(lossy), audited(doubled)

    assert lost.returncode == 1, lost.stdout
    assert re.search(r"does NOT balance: lost [1-9]", lost.stdout), lost.stdout
    assert repeated.returncode == 1, repeated.stdout
    assert re.search(r"does NOT balance: lost \d+, repeated 1", repeated.stdout), repeated.stdout
