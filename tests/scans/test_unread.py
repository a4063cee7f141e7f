"""A program may exit before a scan is read to its end."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_PROGRAM = """
import sys
import strandline as sl
log = sl.open("memory:")
log.create_topic("o", partitions=3)
for _ in range(12):
    log.append_many("o", [sl.Event("a", {"n": n, "s": "x"}) for n in range(2500)])
o = log.scan("o")
"""
_WAYS = {
    "a limit": "import duckdb; duckdb.sql('select * from o limit 1').fetchall()",
    "a relation": "import duckdb; row = duckdb.sql('select kind from o').fetchone()",
    "a query that fails": """
import duckdb
try:
    duckdb.sql("select count(*) from o where (payload::bool)").fetchall()
except duckdb.Error:
    pass
else:
    sys.exit("it did not fail")
""",
    "a stream of DuckDB": """
import duckdb
r = o.to_reader()
duckdb.sql('select * from r limit 1').fetchall()
""",
    "rows of read_batches": """
import pyarrow as pa, pyarrow.dataset as ds
rows = pa.RecordBatchReader.from_stream(log.read_batches("o", 0, 0))
next(iter(ds.Scanner.from_batches(rows).to_batches()))
""",
    "the head": "o.head(5)",
    "batches": "next(iter(o.to_batches()))",
    "a reader": "o.scanner().to_reader().read_next_batch()",
    "a reader that is kept": "kept = o.scanner().to_reader(); kept.read_next_batch()",
    "a closed log": "next(iter(o.to_batches())); log.close()",
}


@pytest.mark.parametrize("way", _WAYS)
def test_a_program_that_does_not_read_a_scan_to_its_end_ends(way: str) -> None:
    program = f"{_PROGRAM}\n{_WAYS[way]}\nprint('end', flush=True)"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
