"""Programs that append until SIGINT comes at a random moment: each one ends, and soon."""

import os
import random
import signal
import tempfile
import time
from pathlib import Path

import strandline as sl
from tests.processes.stores import url_in

PATIENCE_S = 30.0
_PAUSE_S = 0.002


def run(scheme: str, seed: int, programs: int) -> None:
    """Start and interrupt so many programs on one log; AssertionError if one does not end."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        url = url_in(scheme, Path(folder) / "log")
        with sl.open(url) as log:
            log.create_topic("orders")
        acknowledged = 0
        for number in range(programs):
            acknowledged += _interrupt(url, rng.uniform(0.0, 0.02), f"seed {seed}, {number}")
        with sl.open(url) as log:
            assert log.marks("orders", 0).high >= acknowledged, f"seed {seed}: records were lost"


def _interrupt(url: str, delay_s: float, which: str) -> int:
    """Return how many appends the program had acknowledged."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _append_until_interrupted(url, writer)
        finally:
            # Whatever the interrupt hits, the child never continues as its parent.
            os._exit(0)
    os.close(writer)
    try:
        assert os.read(reader, 1) == b"!", f"{which}: it did not begin"
        time.sleep(delay_s)
        os.kill(child, signal.SIGINT)
        _wait_for(child, which)
        told = b"".join(iter(lambda: os.read(reader, 100), b"")).decode()
    finally:
        os.close(reader)
    outcome, _, count = told.partition(" ")
    assert outcome in ("KeyboardInterrupt", "FailedError", "UnknownError"), f"{which}: {told}"
    return int(count)


def _append_until_interrupted(url: str, writer: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    count, outcome = 0, "nothing"
    try:
        with sl.open(url) as log:
            log.append("orders", sl.Event("made", {}))
            os.write(writer, b"!")
            while True:
                log.append("orders", sl.Event("made", {}))
                count += 1
    except BaseException as error:  # noqa: BLE001 - The parent looks at it.
        outcome = type(error).__name__
    os.write(writer, f"{outcome} {count}".encode())


def _wait_for(child: int, which: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(_PAUSE_S)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"{which}: the program did not end")
