"""A backup is made while a process writes, and brought back whole or up to an offset."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import strandline as sl
from tests.cli.program import ran, run

APPENDER = Path(__file__).parents[1] / "log" / "copy_appender.py"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_backup_made_while_a_process_writes_is_a_sound_prefix(scheme: str, folder: Path) -> None:
    url = f"{scheme}:{folder / 'log'}"
    ran("create", "orders", "--partitions", "2", "--url", url)
    writer = subprocess.Popen(
        [sys.executable, str(APPENDER), url], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        with sl.open(url, mode="read") as log, log.subscribe("orders") as arriving:
            while next(arriving).offset < 100:
                pass
        backup = ran("backup", "copy", "--url", url, "--json").document
        assert writer.poll() is None, "it wrote all the time"
    finally:
        writer.kill()
        writer.communicate()

    assert backup["is_sound"]
    assert backup["records"] > 100
    copied = ran("read", "orders", "--url", f"{scheme}:copy", "--json", "--partition", "0").lines
    there = ran("read", "orders", "--url", url, "--json", "--partition", "0").lines
    assert copied == there[: len(copied)]
    assert len(there) >= len(copied) > 0


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_restored_log_is_recognised_as_a_copy_by_its_consumers(scheme: str, folder: Path) -> None:
    url = f"{scheme}:log"
    ran("create", "orders", "--url", url)
    ran("append", "orders", *map(str, range(10)), "--kind", "n", "--url", url)
    ran("ack", "orders", "ahead", "--to", "8", "--url", url)
    ran("ack", "orders", "behind", "--to", "3", "--url", url)
    ran("backup", "copy", "--url", url)

    again = ("--url", f"{scheme}:again")
    done = ran("restore", f"{scheme}:copy", *again, "--until", "orders=5", "--json").document

    assert done["records"] == 5
    assert [each["payload"] for each in ran("read", "orders", *again, "--json").lines] == [
        *range(5)
    ]
    assert ran("ack", "orders", "behind", "--to", "4", *again).code == 0
    assert run("ack", "orders", "ahead", "--to", "5", *again).code == 6
    with sl.open(f"{scheme}:again") as log, pytest.raises(sl.DivergedError) as caught:
        log.cursor("orders", "ahead", 0)
    assert caught.value.diverged_at == 5
    ran("seek", "orders", "ahead", "5", *again)
    ran("append", "orders", '"on"', "--kind", "n", *again)
    assert ran("verify", *again).code == 0


@pytest.mark.slow
def test_several_partitions_may_end_at_offsets_of_their_own(folder: Path) -> None:
    ran("create", "orders", "--partitions", "2")
    for partition in ("0", "1"):
        ran("append", "orders", "1", "2", "3", "--kind", "n", "--partition", partition)

    ran(
        *("restore", "file:.strandline/events", "--url", "file:again"),
        *("--until", "orders=1", "--until", "orders/1=2"),
    )

    with sl.open("file:again") as log:
        assert [log.marks("orders", each).high for each in (0, 1)] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_both_commands_take_a_path_or_a_url_for_both_places(scheme: str, folder: Path) -> None:
    ran("create", "orders", "--url", f"{scheme}:log")

    made = ran("backup", f"{scheme}:copy", "--url", "log", "--json").document
    brought = ran("restore", "copy", "--url", "./again", "--json").document

    assert (made["source"], made["target"]) == (f"{scheme}:log", f"{scheme}:copy")
    assert (brought["source"], brought["target"]) == (f"{scheme}:copy", f"{scheme}:./again")
    assert ran("topics", "--url", f"{scheme}:again", "--json").lines


@pytest.mark.slow
def test_what_cannot_be_copied_is_refused(orders: str, folder: Path) -> None:
    ran("backup", "copy")

    assert run("backup", "copy").code == 2, "nothing is overwritten"
    assert run("restore", "file:copy", "--url", "sqlite:other").code == 2
    assert run("restore", "file:nowhere", "--url", "file:other").code == 2
    assert run("restore", "file:copy", "--url", "file:o", "--until", "orders=6").code == 2
    assert run("restore", "file:copy", "--url", "file:o", "--until", "orders/1=0").code == 2
    assert run("restore", "file:copy", "--url", "file:o", "--until", "order=0").code == 2
    assert run("restore", "file:copy", "--url", "file:o", "--until", "orders").code == 2
    assert run("backup", "copy", "--url", "memory:").code == 2
    assert {path.name for path in folder.iterdir()} == {".strandline", "copy"}


@pytest.mark.slow
def test_a_copy_of_damaged_records_is_made_and_reported(orders: str, folder: Path) -> None:
    [segment] = folder.rglob("*.segment")
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)

    done = run("backup", "copy", "--json")

    assert done.code == 1
    assert not done.document["is_sound"]
    assert (folder / "copy").exists(), "what is sound of it may be all that there is"
    shutil.rmtree(folder / "copy")
    assert "DAMAGED" in run("backup", "copy").stdout
