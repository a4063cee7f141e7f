"""The console of the run, while it goes: everything that happens can be looked at."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import strandline as sl
from strandline.server.running import Address, RunningServer


@contextmanager
def open_console(log: sl.Log, view: sl.LiveView[Any], triggers: sl.Triggers) -> Iterator[str]:
    """Serve the log on this machine, and return where the console is."""
    server = RunningServer(log, Address(port=0), views={"spending": view}, triggers=[triggers])
    serving = threading.Thread(target=server.run, name="console")
    serving.start()
    try:
        yield f"{server.url}/console/"
    finally:
        server.stop()
        serving.join()
