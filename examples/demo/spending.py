"""A view that answers: how much has this customer ordered, the order just placed included?"""

import json
import threading
from collections.abc import Mapping

import strandline as sl
from examples.demo.plan import DESK_ORDERS, PARTITIONS, SHOP, Plan
from examples.demo.shop import desk_order


class Spending(sl.View[dict[str, int]]):
    """Cents ordered, by customer."""

    version = 1

    def initial(self, partition: int) -> dict[str, int]:  # noqa: ARG002 # All begin alike.
        return {}

    def apply(self, state: dict[str, int], record: sl.Record) -> int:
        if record.kind != "order.placed":
            return 0
        cents = record.payload["cents"]
        if not isinstance(cents, int):
            raise sl.RefusedError("an order without a price", id=record.payload["id"])
        customer = str(record.key)
        state[customer] = state.get(customer, 0) + cents
        return state[customer]

    def encode(self, state: dict[str, int]) -> bytes:
        return json.dumps(state, sort_keys=True).encode()

    def decode(self, stored: bytes) -> dict[str, int]:
        found: dict[str, int] = json.loads(stored)
        return found


def open_spending(plan: Plan, log: sl.Log) -> sl.LiveView[dict[str, int]]:
    """Return the view over every partition, ready."""
    view = sl.LiveView(log, SHOP, Spending(), snapshot=plan.path("spending.snapshot"))
    view.reconcile(range(PARTITIONS))
    view.wait_ready(timeout_s=60)
    return view


def all_spending(view: sl.LiveView[dict[str, int]]) -> Mapping[str, int]:
    """Return what every customer has ordered."""
    found: dict[str, int] = {}
    for partition in range(PARTITIONS):
        found |= view.read(partition, dict) or {}
    return found


class Desk:
    """Places orders all day, and asks after each one."""

    def __init__(self, view: sl.LiveView[dict[str, int]], day_s: float) -> None:
        self.asked = 0
        self.wrong: list[str] = []
        self._view = view
        self._pause_s = 0.8 * day_s / DESK_ORDERS
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="desk", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        expected = 0
        place = self._view.partition_of("desk")
        for number in range(DESK_ORDERS):
            self._is_over.wait(self._pause_s)
            event = desk_order(number)
            expected += event.payload["cents"]
            self._view.publish(event)
            answer = self._view.read(place, lambda state: state.get("desk"))
            self.asked += 1
            if answer != expected:
                self.wrong.append(f"asked after order {number}: {answer}, not {expected}")

    def join(self) -> None:
        self._thread.join()
