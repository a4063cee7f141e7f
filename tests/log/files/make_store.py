"""Makes the stores that later versions have to open: one for each version of the format.

`python -m tests.log.files.make_store` writes `stores/format-<version>/` again, which may
be done for as long as no release has written that version. See
docs/reference/file-format.md.
"""

import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from strandline.log import Log, Value
from strandline.stores.files.checked import FORMAT
from strandline.values import Durability, Event, ValueKind
from tests.log.files.crashes import PATH, TickingClock
from tests.log.files.stored_content import content_of
from tests.logs import file_log
from tests.model.disk import Disk, Tree

STORES = Path(__file__).parent / "stores"
ARCHIVE = "store.tar.gz"
EXPECTED = "expected.json"
TENANTS = (None, "shop")
#: Written into tails and locks: another one would make other bytes.
_PID = 4711
_GZIP = 31


class MadeStore(NamedTuple):
    """A store, and what has to be found in it."""

    tree: Tree
    #: Topic, partition, the terms of the append, and where it went, of writes to be recognised.
    repeats: list[tuple[str, int, dict[str, Any], int]]


def made_store() -> MadeStore:
    """Return a store with something of everything, the same bytes each time."""
    made = MadeStore(Tree(), [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: _PID)
        # The last one is opened after a restart of the machine: another epoch begins.
        for opening, (boot, compression) in enumerate([(0, None), (0, "zstd"), (1, "lz4")]):
            disk = Disk(made.tree, boot=boot)
            with _opened(disk, opening=opening, compression=compression) as log:
                if opening == 0:
                    _create(log)
                _fill(log, opening)
                _fill_on_terms(log, opening, made)
                _tidy(log, opening)
            made = made._replace(tree=disk.freeze())
    return made


def expected_of(made: MadeStore) -> dict[str, Any]:
    """Return what has to be found in the store, and how it was made."""
    with _opened(Disk(made.tree, boot=1), opening=3, mode="read") as log:
        content = content_of(log, TENANTS)
        head = log.proof_head("proved", 0)
    return {
        "format": FORMAT,
        "pyarrow": pa.__version__,
        "now_us": _now_us(3),
        "repeats": made.repeats,
        "head": head.to_json().decode(),
        "content": content,
    }


def packed(tree: Tree) -> bytes:
    """Return the store as a compressed archive, the same bytes each time."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in entries_of(tree):
            member = tarfile.TarInfo(name)
            if content is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content or b""))
    squeezing = zlib.compressobj(9, wbits=_GZIP)
    return squeezing.compress(archive.getvalue()) + squeezing.flush()


def entries_of(tree: Tree) -> Iterator[tuple[str, bytes | None]]:
    """Yield the paths inside the log with their content, or None for a directory."""
    inode = tree.directories[1][PATH.strip("/")]
    waiting = [(name, tree.directories[inode][name]) for name in sorted(tree.directories[inode])]
    while waiting:
        path, inode = waiting.pop(0)
        yield path, tree.files.get(inode)
        names = tree.directories.get(inode, {})
        waiting += [(f"{path}/{name}", names[name]) for name in sorted(names)]


def _opened(
    disk: Disk, *, opening: int, compression: str | None = None, mode: str = "write"
) -> Log:
    clock = TickingClock(now_us=_now_us(opening), seed=opening)
    return file_log(
        PATH, io=disk, clock=clock, mode=mode, compression=compression, segment_bytes=24 * 1024
    )


def _now_us(opening: int) -> int:
    return 1_700_000_000_000_000 + opening * 3_600_000_000


def _create(log: Log) -> None:
    log.create_topic("orders", partitions=2, retention_age_s=86_400, retention_bytes=1 << 30)
    log.create_topic("raw", value_kind=ValueKind.BYTES)
    log.create_topic("batches", value_kind=ValueKind.BATCH)
    for name in ("sealed", "trimmed", "empty", "dropped"):
        log.create_topic(name)
    log.create_topic("proved", proof=True)
    log.create_topic("orders", tenant="shop")
    log.create_topic("__strandline.kept", internal=True)


def _fill(log: Log, opening: int) -> None:
    many = [_event(number) for number in range(64)]
    for partition in range(2):
        for number in range(4):
            log.append("orders", _event(number), partition=partition)
        log.append_many("orders", many, partition=partition, tenant="shop" if partition else None)
        log.append_many("orders", many[:8], partition=partition, tenant="shop")
    for number in range(5):
        log.append("raw", bytes([number]) * (number * 31), key=f"k{number}")
        log.append("batches", pa.record_batch({"n": [number, 7], "text": ["a" * number, None]}))
        log.append("trimmed", _event(number))
        log.append("proved", _event(number), tenant="shop" if number else None)
        log.append("sealed", _event(number), tenant="shop" if number else None)
    log.append_many("raw", [b"x" * 50] * 64)
    log.append_many("proved", many)
    log.append("__strandline.kept", _event(opening))
    log.append(log.topic("orders", tenant="shop"), _event(opening), durability=Durability.DURABLE)


def _fill_on_terms(log: Log, opening: int, made: MadeStore) -> None:
    def appended(topic: str, partition: int, value: Value, **terms: Any) -> None:
        receipt = log.append(topic, value, partition=partition, **terms)
        made.repeats.append((topic, partition, terms, receipt.offset))

    for partition in range(2):
        appended("orders", partition, _event(7), idempotency_key=f"{opening}-{partition}")
        appended("orders", partition, _event(8), producer="till", sequence=10 * opening)
    appended("raw", 0, b"once", producer="till", sequence=opening, tenant="shop")
    appended("sealed", 0, _event(9), idempotency_key=f"sealed-{opening}")
    # Some go to each partition, and so the sequences there have gaps.
    values = [_event(number) for number in range(12)]
    log.append_many("orders", values, producer="gaps", sequence=50 * opening)


def _tidy(log: Log, opening: int) -> None:
    for partition in range(2):
        log.ack("orders", "billing", partition, 10 + opening)
        log.seek("orders", "shipping", partition, 5, tenant="shop")
    log.trim("trimmed", 0, 2 + 5 * opening)
    log.seal("sealed")
    if opening == 1:
        log.seal("raw")
        log.seal("proved")
        # In the middle of a frame.
        log.trim("proved", 0, 20)
    if opening == 0:
        log.append("dropped", _event(1))
        log.drop_topic("dropped")
    log.flush()


def _event(number: int) -> Event:
    return Event(
        "order.créée",
        {"n": number, "text": "shore" * (number % 7 * 4)},
        key=None if number % 5 == 0 else f"c{number}",
        headers={"trace": f"{number:04x}"} if number % 3 else {},
        occurred_at=datetime(2024, 5, 17, 12, 30, number % 60, 250_000, UTC)
        if number % 2
        else None,
    )


def main() -> None:
    """Write the store of the present version."""
    folder = STORES / f"format-{FORMAT}"
    folder.mkdir(parents=True, exist_ok=True)
    made = made_store()
    (folder / ARCHIVE).write_bytes(packed(made.tree))
    shown = json.dumps(expected_of(made), ensure_ascii=False, sort_keys=True)
    (folder / EXPECTED).write_text(shown.replace("], [", "],\n[") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
