"""Registers a typed topic and a later version of it, and is killed before a given line."""

import os
import signal
import sys
from types import FrameType
from typing import Any

import pyarrow as pa

import strandline as sl

FIRST = pa.schema([pa.field("id", pa.int8(), nullable=False), pa.field("kind", pa.string())])
SECOND = FIRST.append(pa.field("note", pa.string()))
METADATA = {"owner": "ops", "retention_seconds": "60"}


def main(url: str, die_at: int) -> None:
    lines = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        if "strandline" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines += 1
            if lines == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    with sl.open(url) as log:
        scope = log.scope("alice")
        sys.settrace(trace)
        scope.register("orders", FIRST, metadata=METADATA)
        registered = lines
        scope.evolve("orders", SECOND)
        sys.settrace(None)
        sys.stdout.write(f"{registered} {lines}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
