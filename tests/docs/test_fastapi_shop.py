"""The service of the page on FastAPI: four workers and two consumers, as on the page."""

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "with-fastapi.md"
ORDERS = 40
PATIENCE_S = 120.0


def wait_for(found: Callable[[], object]) -> object:
    """Return what is found, once something is."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := found()):
        assert time.monotonic() < deadline, "that takes too long"
        time.sleep(0.02)
    return value


def port_in(path: Path) -> str | None:
    found = re.search(r"running on http://127\.0\.0\.1:(\d+)", path.read_text())
    return None if found is None else found[1]


def place(port: object, number: int) -> int:
    body = b'{"id": %d, "cents": 5}' % number
    headers = {"content-type": "application/json"}
    request = Request(f"http://127.0.0.1:{port}/orders", body, headers)
    with urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - Our own server.
        return int(answer.status)


@pytest.mark.heavy
def test_four_workers_take_orders_and_two_consumers_bill_each_once(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    (worker,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    shop = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "worker.py").write_text(worker)
    (tmp_path / "shop.py").write_text(shop)
    (command,) = re.findall(r"^uvicorn (.*)$", page, re.MULTILINE)
    log, bills = tmp_path / "uvicorn.log", tmp_path / "bills"
    with log.open("w") as output, bills.open("w") as billed:
        service = [sys.executable, "-m", "uvicorn", *command.split(), "--port", "0"]
        children = [
            subprocess.Popen(service, cwd=tmp_path, stderr=output, stdout=output),
            *(
                subprocess.Popen([sys.executable, "worker.py"], cwd=tmp_path, stdout=billed)
                for _ in range(2)
            ),
        ]
        try:
            port = wait_for(lambda: port_in(log))
            wait_for(lambda: log.read_text().count("startup complete") == 4)
            with ThreadPoolExecutor(8) as pool:
                placed = list(pool.map(lambda number: place(port, number), range(ORDERS)))
                again = list(pool.map(lambda number: place(port, number), range(ORDERS)))
            wait_for(lambda: len(bills.read_text().splitlines()) >= ORDERS)
        finally:
            # The workers of the service end with it.
            children[0].terminate()
            children[0].wait(PATIENCE_S)
            for child in children[1:]:
                child.kill()
                child.wait()

    assert placed == again == [201] * ORDERS
    assert Counter(bills.read_text().splitlines()) == {f"billed {n}": 1 for n in range(ORDERS)}
