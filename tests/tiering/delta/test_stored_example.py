"""A table that an earlier version wrote is read, and continues."""

import zipfile
from pathlib import Path

import pytest
from deltalake import DeltaTable

import strandline as sl
from strandline.tiering.routing import topic_folder
from tests.tiering.delta.make_store import STORED
from tests.tiering.delta.tables import dumped, tabled
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.tiered import opened

pytestmark = pytest.mark.slow


def test_a_stored_table_is_read_and_continues(tmp_path: Path) -> None:
    with zipfile.ZipFile(STORED) as stored:
        stored.extractall(tmp_path)
    objects, folder = MemoryObjects(), tmp_path / "objects"
    for path in folder.rglob("*"):
        if path.is_file():
            objects.objects[path.relative_to(folder).as_posix()] = path.read_bytes()

    with opened("sqlite", tmp_path, objects) as log:
        events = DeltaTable(folder / topic_folder(log.topic("t")))
        typed = DeltaTable(folder / topic_folder(log.topic("typed")))
        assert _column(events, "_offset") == list(range(7, 21))
        assert _column(typed, "a") == [1, 2, 2**40]
        assert events.version() == 2
        log.append("t", sl.Event("k"))
        tabled(log)

        table = DeltaTable(dumped(objects, folder) / topic_folder(log.topic("t")))
        assert table.version() == 3
        assert _column(table, "_offset") == list(range(7, 22))


def _column(table: DeltaTable, name: str) -> list[int]:
    found: list[int] = table.to_pyarrow_table().column(name).to_pylist()
    return sorted(found)
