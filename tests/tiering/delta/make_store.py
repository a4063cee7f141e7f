"""Makes a stored example of a log with a Delta table, as this version writes it.

    python -m tests.tiering.delta.make_store

Run it when the format changes, under a new name; what is there is never made again.
"""

import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa

import strandline as sl
from tests.tiering.delta.tables import dumped, tabled
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.tiered import filled, opened

STORED = Path(__file__).parents[1] / "stores" / "delta-1.zip"


def make(folder: Path) -> None:
    """Write a log with a table of events and one of typed batches, after a trim."""
    objects = MemoryObjects()
    with opened("sqlite", folder, objects) as log:
        filled(log, 20)
        schema = pa.schema([("a", pa.int32())])
        log.scope().register("typed", schema)
        log.append("typed", pa.record_batch([pa.array([1, 2], pa.int32())], schema=schema))
        for topic in ("t", "typed"):
            tabled(log, topic)
        log.trim("t", 0, 8)
        wider = pa.schema([("a", pa.int64()), ("x", pa.string())])
        log.scope().evolve("typed", wider)
        log.append("typed", pa.record_batch([[2**40], ["q"]], schema=wider))
        log.append("t", sl.Event("last"))
        for topic in ("t", "typed"):
            tabled(log, topic)
    dumped(objects, folder / "objects")


def main() -> None:
    """Write the example, unless there is one."""
    assert not STORED.exists(), f"{STORED.name} is there, choose a new name"
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make(folder)
        with zipfile.ZipFile(STORED, "w", zipfile.ZIP_DEFLATED) as stored:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    stored.write(path, path.relative_to(folder))


if __name__ == "__main__":
    main()
