"""Bugs planted in the C sources: each is caught by a check that sound sources pass."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.plain import needs_core
from tests.core.test_building import COMPILERS, SOURCES, needs_compiler
from tools.build_core import FLAGS, LINKING

pytestmark = [needs_core, needs_compiler, pytest.mark.heavy]

TELLING = "if (!put_end(lane, slot)) return false;"
CATCHING_UP = "if (LIKELY(!memcmp(tail, lane->end, END_BYTES))) {"
KEY = "parts.has_key = bit_at(columns->key_bits, row);"
LATEST = "if (now < lane->head.last_us) now = lane->head.last_us;"
LEAVING = "if (!lane->is_exclusive) leave_shared(lane);"
ASKED = "if (lane_is_wanted(lane)) {"
CURRENT = "    *is_current = false;\n    if (!lane_lock_in_place"
UNREAD = "    if ((*is_current = lane->is_leased)) return true;\n"
ENDING = "lane_end_lease(lane);\n    if (!lane->is_owed)"
SYNCING = "do failed = fdatasync(place->segment_fd);"
FAILING = "if (synced.is_sync_lost) commit->error = synced.error;"
SAME = "return 1 || is_sealed(place, tail, END_BYTES) &&"
WATCHED = "(void)is_watched; return true;"
#: Ends are stored and not written, however slow the machine is.
LOST = "if (LIKELY(!__atomic_load_n(&lane->map->is_lost, __ATOMIC_ACQUIRE))) return true;"
TOUCHING = "lane->touch_at = lane->now + TOUCH_S;"
QUIET = ("TOUCH_S = 0.0002;", "TOUCH_S = 3600;")
STORING = "memcpy(lane->map->page, slot, END_BYTES);"
LOADING = "memcpy(tail, lane->map->page, TAIL_BYTES);"
LOADED_BEFORE = "memset(tail, 0, TAIL_BYTES); memcpy(tail, lane->end, END_BYTES);"
MARK_BEFORE = "memcpy(tail + DURABLE_AT, lane->durable_slot, DURABLE_BYTES);"
FENCE = "memcpy(fence, lane->map->page + FENCE_AT, FENCE_BYTES);"
LOOKING = "if (lane->map && lane->now < lane->look_at) return true;"
ROUTED = "PyList_GetItem(found, event_partition(event, (uint32_t)partitions))"
OWNED = "if (LIKELY(now < lane->check_at)) return DONE;"
SUMMED = "part < 5; part++)\n"
BUGS: dict[str, tuple[str, str, str]] = {
    "a frame does not name the one before it": (
        "lane.c",
        "frame + 8, lane->head.crc",
        "frame + 8, 0",
    ),
    "the head moves by one for many": ("lane.c", "head.next += count;", "head.next += 1;"),
    "time goes back": ("lane.c", LATEST, ""),
    "the lock is kept": ("lane_enter.c", LEAVING, "(void)lane; (void)leave_shared;"),
    "a kept lock is not given up to who asks": ("lane_enter.c", ASKED, "if (0) {"),
    "an idle process keeps the lock": ("lane_lease.c", "end_those(is_idle, NULL);", ""),
    "a kept lock needs no look at the tail": ("lane_enter.c", CURRENT, UNREAD + CURRENT),
    "a lock that Python took is still kept": ("lane.c", ENDING, "if (!lane->is_owed)"),
    "the fence is not looked at": ("lane_tail.c", "if (LIKELY(!is_fenced(fence)))", "if (1)"),
    "the end is not told": ("lane_tail.c", TELLING, ""),
    "the end is not stored": ("lane_tail.c", STORING, ""),
    "a shared tail is not read": ("lane_tail.c", LOADING, LOADED_BEFORE + MARK_BEFORE),
    "a shared fence is not looked at": ("lane_tail.c", FENCE, "memset(fence, 0, FENCE_BYTES);"),
    "a lost tail is believed": ("lane_tail.c", LOST, "if (1) return true;"),
    "the lock file is never looked at": ("lane_io.c", LOOKING, "return true;"),
    "no watcher of the file is notified": (
        "lane_tail.c",
        TOUCHING,
        "lane->touch_at = lane->now + 3600;",
    ),
    "what was only stored is not looked for": (
        "tail_watch.c",
        "        watch->again_at = now + TOUCH_S;\n",
        "        watch->again_at = 0;\n",
    ),
    "a notice is not followed by a look": (
        "tail_watch.c",
        "        /* Loops wait for the same notices. */\n",
        "        return tail_take_notices(watch), false;\n",
    ),
    "a follower passes a fence": (
        "tail_watch.c",
        " != TAIL_BYTES || has_fence(tail)) return false;",
        " != TAIL_BYTES) return (void)has_fence, false;",
    ),
    "others are not caught up with": ("lane_tail.c", CATCHING_UP, "{"),
    "a receipt is durable by a sync that had begun": (
        "group_commit.c",
        "int64_t turn = commit->begun + 1;",
        "int64_t turn = commit->begun;",
    ),
    "durable without a sync": ("sync_round.c", SYNCING, "do failed = 0;"),
    "a failed sync is forgotten": ("group_commit.c", FAILING, ""),
    "a failed sync counts": ("group_commit.c", "if (synced.step == DONE) {", "if (1) {"),
    "what is durable is not told to others": (
        "sync_round.c",
        "step = write_mark(place, mark);",
        "step = DONE;",
    ),
    "another epoch is not noticed": (
        "sync_round.c",
        "return is_sealed(place, tail, END_BYTES) &&",
        SAME,
    ),
    "tasks take what is written for durable": (
        "receipt.c",
        "&& (!receipt->commit || commit_is_ended(receipt->commit, receipt->turn))",
        "",
    ),
    "watchers are not notified": ("appender.c", "if (LIKELY(!is_watched)) return true;", WATCHED),
    "an append is not counted": ("appender.c", "appender->appends++;", ""),
    "a list counts as one event": (
        "appender.c",
        "appender->records += count;",
        "appender->records += 1;",
    ),
    "a key goes to another partition": ("appender.c", ROUTED, "PyList_GetItem(found, 0)"),
    "an owner never looks at its files": ("lane_enter.c", OWNED, "return DONE;"),
    "the checksum of a row leaves its value out": ("record_rows.c", SUMMED, "part < 4; part++)\n"),
    "a write is not counted": ("lane.c", "lane->appends++;", ""),
    "values go by an old count": ("appender.c", "if (now >= appender->fresh_until)", "if (0)"),
    "a failed log goes on": ("appender.c", "if (!is_open) Py_RETURN_NOTIMPLEMENTED;", ""),
    "a page is larger than its limit": ("reader.c", "reader->bytes_left -= size;", ""),
    "the first record of a page is left out": ("reader.c", " && !reader->is_first;", ";"),
    "a checksum is not verified": ("reader.c", "!= read_u32(frame))", "!= read_u32(frame) && 0)"),
    "a missing key is an empty one": ("columns.c", KEY, "parts.has_key = true;"),
    "headers are not sorted": ("json_encode.c", "return order < 0 ||", "return 0 &&"),
    "a quote is not escaped": ("json_encode.c", "*to++ = '\\\\';\n", ""),
}


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sound sources, compiled."""
    folder = tmp_path_factory.mktemp("objects")
    for source in SOURCES.glob("*.c"):
        compiled(source, folder / f"{source.name}.o")
    return folder


def compiled(source: Path, target: Path) -> None:
    include = f"-I{SOURCES}"
    command = [COMPILERS[0], *FLAGS, "-w", include, "-c", str(source), "-o", str(target)]
    subprocess.run(command, check=True)


def checked(library: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.core.lane_check", str(library), str(folder)],
        cwd=SOURCES.parents[2],
        env={**os.environ, "STRANDLINE_CORE": "on"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def linked(objects: Path, target: Path, planted: Path | None = None) -> Path:
    parts = [each for each in objects.glob("*.o") if planted is None or each.name != planted.name]
    command = [COMPILERS[0], *map(str, parts), *([str(planted)] if planted else []), *LINKING]
    subprocess.run([*command, "-o", str(target)], check=True)
    return target


def test_sound_sources_pass_the_check(objects: Path, tmp_path: Path) -> None:
    answer = checked(linked(objects, tmp_path / "core.so"), tmp_path)

    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(objects: Path, tmp_path: Path, bug: str) -> None:
    name, sound, planted = BUGS[bug]
    source = (SOURCES / name).read_text()
    assert source.count(sound) == 1
    planted_source = source.replace(sound, planted)
    if name == "lane_tail.c" and sound != TOUCHING:
        assert planted_source.count(QUIET[0]) == 1
        planted_source = planted_source.replace(*QUIET)
    (tmp_path / name).write_text(planted_source)
    compiled(tmp_path / name, tmp_path / f"{name}.o")

    answer = checked(linked(objects, tmp_path / "core.so", tmp_path / f"{name}.o"), tmp_path)

    assert answer.returncode != 0
    assert "Error" in answer.stderr
