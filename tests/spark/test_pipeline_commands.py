"""`strandline pipeline …`, in the one Spark session of the run."""

import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from strandline.cli.exit_codes import ExitCode
from tests.cli.program import prepare, process, ran, run
from tests.cli.test_examples import COMMANDS, examples_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_spark")]

PIPELINE = {words: found for words, found in COMMANDS.items() if words[0] == "pipeline"}
VIEW = """
import strandline as sl


class Totals(sl.View[list[int]]):
    def initial(self, partition):
        return [0]

    def apply(self, state, record):
        state[0] += record.payload.get("total", 0)

    def encode(self, state):
        return str(state[0]).encode()

    def decode(self, stored):
        return [int(stored)]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder with the log that the examples continue from, and a view."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRANDLINE_URL", raising=False)
    monkeypatch.delenv("STRANDLINE_STATE_DIR", raising=False)
    (tmp_path / "totals.py").write_text(VIEW)
    prepare()
    return tmp_path


@pytest.mark.parametrize("words", PIPELINE, ids=" ".join)
def test_examples_in_the_help_work(
    spark: SparkSession, words: tuple[str, ...], folder: Path
) -> None:
    lines = examples_of(PIPELINE[words])
    assert any(line.startswith(f"strandline {' '.join(words)}") for line in lines)

    for line in lines:
        ran(*shlex.split(line.replace("$PWD", str(folder)))[1:])

    assert spark.range(1).count() == 1, "a session that was there is left alone"


def test_what_they_answer(spark: SparkSession, folder: Path) -> None:
    audited = ran("pipeline", "audit", "orders", "--json").document
    assert audited["is_sound"] is True
    assert audited["records"] == 5
    assert audited["rows_per_s"] > 0

    written = ran("pipeline", "snapshot", "orders", "out", "--below", "0=3", "--json").document
    assert written["offsets"] == {"0": [0, 3]}
    assert (written["records"], written["rows"], written["is_repeat"]) == (3, 2, False)
    again = ran("pipeline", "snapshot", "orders", "out", "--below", "0=3")
    assert "was there already" in again.stdout

    rebuilt = ran("pipeline", "rebuild", "orders", "totals:Totals", "t.snapshot", "--json").document
    assert rebuilt["committed"] == {"0": 4}
    shown = ran("views", "t.snapshot", "--json").document["views"]
    assert [(each["applied"], each["lag"], each["fits"]) for each in shown] == [(5, 0, "yes")]


def test_findings_are_named_and_exit_with_1(spark: SparkSession, folder: Path) -> None:
    store = f"file://{folder / 'cold'}"
    ran("pipeline", "tier", "orders", store, "--include-open", "--local-bytes", "0")
    (stored,) = (folder / "cold").rglob("*.parquet")
    stored.unlink()

    done = run("pipeline", "audit", "orders")

    assert done.code == 1
    assert "1 FINDINGS" in done.stdout
    assert "orders/0 at 0: this object is missing" in done.stderr
    assert stored.name in done.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rebuild orders totals t.snapshot", "module:Class"),
        ("rebuild orders totals:Nothing t.snapshot", "no such view"),
        ("rebuild orders totals:sl t.snapshot", "no such view"),
        ("export orders . --format parquet", "no output of a job"),
        ("export orders out --format xml", "parquet or json"),
        ("snapshot orders out --below 7=1", "its partitions are 0 to"),
        ("audit ordres", "orders"),
    ],
)
def test_mistakes_are_reported(spark: SparkSession, line: str, message: str) -> None:
    done = run("pipeline", *shlex.split(line))

    assert done.code == 2, done.stdout
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_starts_a_spark_of_its_own_and_says_nothing_but_the_answer() -> None:
    done = process("pipeline", "audit", "orders", "--json")

    assert (done.returncode, done.stderr) == (0, ""), "what Java says of itself is not shown"
    assert msgspec.json.decode(done.stdout)["is_sound"]


@pytest.mark.parametrize("line", ["audit", "export orders out", "backfill files orders"])
def test_a_log_that_is_not_there_is_found_out_before_spark_is_started(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    # Spark would not start with this.
    monkeypatch.setenv("JAVA_HOME", "/no/java")
    checkpoint = ["--checkpoint", "done"] if line.startswith("backfill") else []

    done = process("pipeline", *line.split(), *checkpoint, "--url", "file:none")

    assert done.returncode == 2, done.stderr
    assert "there is no log here" in done.stderr


FAILING = """
from pyspark import pipelines as dp
from pyspark.sql import functions as f
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.materialized_view
def broken():
    return spark.range(3).select(f.raise_error(f.lit("boom: of the user")).alias("x"))
"""


@pytest.mark.heavy
def test_a_pipeline_that_fails_names_its_cause_first_also_as_json(folder: Path) -> None:
    ran("pipeline", "init", "shop")
    (folder / "shop" / "transformations" / "orders.py").write_text(FAILING)

    done = run("pipeline", "run", "shop", "--json")

    assert done.code == ExitCode.UNAVAILABLE
    told = msgspec.json.decode(done.stderr.splitlines()[-1])["error"]
    assert told["class"] == "UnavailableError"
    reason = told["fields"]["reason"]
    assert reason.startswith("Flow ")
    assert "boom: of the user" in reason
    assert "\tat " not in reason
    assert reason.count("boom: of the user") == 1

    shown = process("pipeline", "run", "shop")
    (line,) = [each for each in shown.stderr.splitlines() if each.startswith("strandline: ")]
    assert line.index("boom: of the user") < line.index("last-run.log")
    assert "Traceback" not in shown.stderr


def test_without_pyspark_the_extra_is_named(folder: Path) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from strandline.cli.app import app\n"
        "app(['pipeline', 'audit', 'orders'])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "pip install 'path/to/strandline[spark]'" in done.stderr
    assert "Traceback" not in done.stderr
