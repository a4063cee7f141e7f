"""Stores that are closed after each test, whatever state it left them in."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from strandline.values import StrandlineError
from tests.writes.doubles import Call, Store

OpenStore = Callable[..., Store]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A hang is a bug; it should not cost more than this.
    for item in items:
        if "writes" in item.path.parts:
            item.add_marker(pytest.mark.timeout(60))


@pytest.fixture
def open_store() -> Iterator[OpenStore]:
    stores: list[Store] = []

    def opened(*args: object, started: bool = True, **kwargs: object) -> Store:
        store = Store(*args, **kwargs)  # type: ignore[arg-type]
        stores.append(store)
        if started:
            store.coordinator.start()
        return store

    yield opened
    for store in stores:
        store.steps.release()
        take_down(store)


def take_down(store: Store) -> None:
    with contextlib.suppress(StrandlineError, KeyboardInterrupt, SystemExit):
        Call(lambda: store.coordinator.stop(drain=False, durable=False)).result()
