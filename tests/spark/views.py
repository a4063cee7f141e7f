"""Views that Spark's processes can import."""

from typing import ClassVar

import msgspec

import strandline as sl


class Balances(sl.View[dict[str, int]]):
    """What each key has paid."""

    #: Which offsets this process has applied, for tests to look at.
    applied: ClassVar[dict[int, list[int]]] = {}

    def initial(self, partition: int) -> dict[str, int]:
        return {"partition": partition}

    def apply(self, state: dict[str, int], record: sl.Record) -> None:
        self.applied.setdefault(record.partition, []).append(record.offset)
        if record.kind != "paid":
            raise sl.RefusedError("this is no payment")
        key = record.key or ""
        state[key] = state.get(key, 0) + record.payload["amount"]

    def encode(self, state: dict[str, int]) -> bytes:
        return msgspec.json.encode(state, order="sorted")

    def decode(self, stored: bytes) -> dict[str, int]:
        return msgspec.json.decode(stored, type=dict[str, int])


class Fragile(Balances):
    """Fails on one record."""

    def apply(self, state: dict[str, int], record: sl.Record) -> None:
        if record.payload["n"] == 777:
            raise ValueError("no such number")
        super().apply(state, record)
