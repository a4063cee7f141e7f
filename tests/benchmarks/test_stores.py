"""Ours and the peers, as logs."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from benchmarks.events import samples
from benchmarks.stores import ours
from benchmarks.stores.arrow import ArrowFile
from benchmarks.stores.delta import DeltaLog
from benchmarks.stores.on_loop import OnLoop
from benchmarks.stores.peers import PEERS
from benchmarks.stores.raw import AsyncGroupCommit, GroupCommit, RawFile
from benchmarks.stores.store import Opening, ReplayOpening
from strandline.values import Durability

REPLAYED: Mapping[str, ReplayOpening] = {
    "shared": ours.shared,
    "exclusive": ours.exclusive,
    "sqlite": ours.in_sqlite,
    **{f"peer {name}": opening for name, opening in PEERS.items()},
}
LEVELS = (Durability.WRITTEN, Durability.DURABLE)
EVENTS = samples(20)


@pytest.mark.parametrize("durability", LEVELS)
@pytest.mark.parametrize("opening", REPLAYED.values(), ids=REPLAYED.keys())
def test_a_store_gives_back_all_events_in_order(
    opening: ReplayOpening, durability: Durability, tmp_path: Path
) -> None:
    with closing(opening(tmp_path / "store", durability)) as store:
        for event in EVENTS[:5]:
            store.append(event)
        store.append_encoded(store.encoded(EVENTS[5:15]))
        for event in EVENTS[15:]:
            store.append(event)

    with closing(opening(tmp_path / "store", durability)) as store:
        assert list(store.payloads()) == [event.payload for event in EVENTS]
        assert store.scan() == len(EVENTS)


def test_an_arrow_file_gives_back_all_events_in_order(tmp_path: Path) -> None:
    with closing(ArrowFile(tmp_path / "store", Durability.WRITTEN)) as store:
        store.append_encoded(store.encoded(EVENTS[:5]))
        store.append_encoded(store.encoded(EVENTS[5:]))

    assert list(store.payloads()) == [event.payload for event in EVENTS]
    assert store.scan() == len(EVENTS)


def test_a_delta_table_has_a_commit_for_each_append(tmp_path: Path) -> None:
    with closing(DeltaLog(tmp_path / "store", Durability.WRITTEN)) as store:
        store.append_encoded(store.encoded(EVENTS[:5]))
        store.append(EVENTS[5])

    table = DeltaTable(str(tmp_path / "store"))
    assert table.version() == 2
    assert pa.table(table.to_pyarrow_table())["kind"].to_pylist() == [
        each.kind for each in (EVENTS[5], *EVENTS[:5])
    ]


@pytest.mark.parametrize("durability", LEVELS)
@pytest.mark.parametrize("opening", [RawFile, GroupCommit])
def test_a_raw_file_holds_every_frame(
    opening: Opening, durability: Durability, tmp_path: Path
) -> None:
    with closing(opening(tmp_path / "store", durability)) as store:
        for event in EVENTS[:5]:
            store.append(event)
        store.append_encoded(store.encoded(EVENTS[5:]))

    assert (tmp_path / "store").read_bytes().rstrip(b"\0") == raw_bytes()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("durability", LEVELS)
def test_threads_that_share_a_raw_file_lose_nothing(durability: Durability, tmp_path: Path) -> None:
    with (
        closing(GroupCommit(tmp_path / "store", durability)) as store,
        ThreadPoolExecutor(len(EVENTS)) as pool,
    ):
        list(pool.map(store.append, EVENTS))

    content = (tmp_path / "store").read_bytes()
    assert all(ours.event_of(event).payload_json in content for event in EVENTS)
    assert len(content.rstrip(b"\0")) == len(raw_bytes())


@pytest.mark.parametrize("durability", LEVELS)
def test_tasks_that_share_a_raw_file_lose_nothing(durability: Durability, tmp_path: Path) -> None:
    async def append_all() -> None:
        with closing(AsyncGroupCommit(tmp_path / "store", durability)) as store:
            await asyncio.gather(*map(store.append, EVENTS))

    asyncio.run(append_all())

    assert (tmp_path / "store").read_bytes().rstrip(b"\0") == raw_bytes()


@pytest.mark.parametrize("durability", LEVELS)
def test_tasks_that_share_a_peer_lose_nothing(durability: Durability, tmp_path: Path) -> None:
    opening = PEERS["lmdb"]

    async def append_all() -> None:
        with closing(OnLoop(opening, tmp_path / "store", durability)) as store:
            await asyncio.gather(*map(store.append, EVENTS))

    asyncio.run(append_all())

    with closing(opening(tmp_path / "store", durability)) as store:
        assert store.scan() == len(EVENTS)


def raw_bytes() -> bytes:
    return b"".join(ours.frame_of(ours.event_of(e), n) for n, e in enumerate(EVENTS))
