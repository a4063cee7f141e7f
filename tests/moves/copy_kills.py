"""Copies that are killed repeatedly while a writer continues; the last one is complete."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import strandline as sl
from tests.moves.rich_log import content, new_source

PROCESS = """
import sys
import strandline as sl

source, target = sys.argv[1:]
while True:
    sl.copy(source, target)
    print("done", flush=True)
"""


def kill_copies(folder: Path, scheme: str, target: str, kills: int, seed: int) -> int:
    """Kill the copying process so often; return how many records the last copy has."""
    rng = random.Random(seed)
    source = new_source(folder, scheme)
    stop = threading.Event()
    with sl.open(source) as log:
        writer = threading.Thread(target=_write, args=(log, stop))
        writer.start()
        try:
            for _ in range(kills):
                process = subprocess.Popen(
                    [sys.executable, "-c", PROCESS, source, target],
                    stdout=subprocess.PIPE,
                    cwd=Path(__file__).parents[2],
                )
                with process:
                    assert process.stdout is not None
                    # Killed in the midst of a later copy, or of the first.
                    if rng.random() < 0.5:
                        process.stdout.readline()
                    time.sleep(rng.random() * 0.5)
                    process.kill()
        finally:
            stop.set()
            writer.join()
        sl.copy(source, target)
        with sl.open(target, mode="read") as new:
            assert content(new) == content(log), seed
            (first, _) = new.verify("orders")
            assert first.is_sound
            return first.records


def _write(log: sl.Log, stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        event = sl.Event("later", {"n": number})
        if number % 3 == 0:
            log.append("orders", event, partition=0, idempotency_key=f"later{number}")
        else:
            log.append_many("orders", [event] * (number % 5 + 1), partition=0)
        number += 1
        stop.wait(0.001)
