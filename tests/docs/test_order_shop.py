"""The order service of its page: rows, events and totals agree, also when a worker is killed."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg
import pytest

import strandline as sl
from tests.docs.test_fastapi_shop import PATIENCE_S, port_in, wait_for
from tests.stores.engine_server import NoServerError
from tests.stores.postgres.server import PostgresServer

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "order-service.md"
CUSTOMERS = ("ann", "bob", "eve")
ORDERS = 30


@pytest.fixture
def url() -> Iterator[str]:
    try:
        server = PostgresServer()
    except NoServerError as error:
        pytest.skip(f"PostgreSQL cannot be started: {error}")
    yield server.url()
    server.close()


def answer(port: object, path: str, body: object = None) -> tuple[int, dict[str, int]]:
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"http://127.0.0.1:{port}{path}", data, {"content-type": "application/json"})
    try:
        with urlopen(request, timeout=PATIENCE_S) as given:  # noqa: S310 - Our own server.
            return given.status, json.load(given)
    except HTTPError as refused:
        return refused.code, {}


def buy(port: object, number: int) -> tuple[int, int]:
    """Place an order twice; return the status of the second, and what the customer has spent."""
    customer = CUSTOMERS[number % 3]
    order = {"id": number, "customer": customer, "cents": 5}
    status, placed = answer(port, "/orders", order)
    assert status == 201
    _, total = answer(port, f"/customers/{customer}?after={placed['offset']}")
    return answer(port, "/orders", order)[0], total["cents"]


@pytest.mark.heavy
def test_rows_events_and_totals_agree_when_a_worker_is_killed(url: str, tmp_path: Path) -> None:
    programs = re.findall(r"```py\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for name, program in zip(("shop.py", "worker.py"), programs, strict=True):
        (tmp_path / name).write_text(program)
    (command,) = re.findall(r"^uvicorn (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    environment = {**os.environ, "SHOP_URL": url}
    log, bills = tmp_path / "uvicorn.log", tmp_path / "bills"
    children: list[subprocess.Popen[bytes]] = []
    with log.open("w") as output, bills.open("w") as billed:

        def start(*arguments: str, to: IO[str] = billed) -> None:
            children.append(
                subprocess.Popen(
                    [sys.executable, *arguments],
                    cwd=tmp_path,
                    env=environment,
                    stdout=to,
                    stderr=output,
                )
            )

        try:
            start("-m", "uvicorn", *command.split(), "--port", "0", to=output)
            port = wait_for(lambda: port_in(log))
            wait_for(lambda: log.read_text().count("startup complete") == 2)
            start("worker.py")
            start("worker.py")
            with ThreadPoolExecutor(4) as pool:
                bought = list(pool.map(lambda number: buy(port, number), range(ORDERS)))
            wait_for(lambda: "billed" in bills.read_text())
            children[1].kill()
            with psycopg.connect(url, autocommit=True) as connection:
                count = "SELECT count(*) FROM orders WHERE state = 'paid'"
                wait_for(lambda: connection.execute(count).fetchone() == (ORDERS,))
            totals = [answer(port, f"/customers/{name}")[1]["cents"] for name in CUSTOMERS]
        finally:
            # The workers of the service end with it.
            for child in children:
                child.terminate()
            for child in children:
                child.wait(PATIENCE_S)

    assert {status for status, _ in bought} == {409}
    assert all(cents >= 5 for _, cents in bought)
    assert totals == [ORDERS // 3 * 5] * 3
    with sl.open(url) as opened:
        events = [
            (record.kind, record.payload["id"])
            for partition in range(4)
            for record in opened.read("orders", partition, 0)
        ]
    wanted = [(kind, n) for kind in ("order.placed", "order.paid") for n in range(ORDERS)]
    assert Counter(events) == Counter(wanted)
