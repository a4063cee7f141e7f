"""Bugs planted in the C sources: each is caught by a check that sound sources pass."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.core.plain import needs_core
from tests.core.planting import Bug
from tests.core.test_building import COMPILERS, SOURCES, needs_compiler
from tools.build_core import FLAGS, LINKING

pytestmark = [needs_core, needs_compiler, pytest.mark.heavy]

SOUND = {source.name: source.read_text() for source in SOURCES.glob("*.c")}
#: Ends are stored in shared memory alone, however slow the machine is.
STORED_ONLY = Bug("no watcher of the file is notified", "put_end", "TOUCH_S", "3600")
MARK_BEFORE = "memcpy(tail + DURABLE_AT, lane->durable_slot, DURABLE_BYTES)"
TAIL_BEFORE = f"memset(tail, 0, TAIL_BYTES), memcpy(tail, lane->end, END_BYTES), {MARK_BEFORE}"
BUGS = [
    STORED_ONLY,
    Bug("a frame does not name the one before it", "write_frame_head", "lane->head.crc", "0"),
    Bug("the head moves by one", "write_frame", "lane->head.next += _", "lane->head.next++"),
    Bug("a write is not counted", "write_frame", "lane->appends++", "0"),
    Bug("time goes back", "lane_append_body", "_ < lane->head.last_us", "0"),
    Bug("a lock that Python took is still kept", "lane_disarm", "lane_end_lease(...)", "0"),
    Bug("the lock is kept", "lane_leave", "leave_shared(...)", "0"),
    Bug("a kept lock is not given up to who asks", "may_keep", "lane_is_wanted(...)", "0"),
    Bug("an idle process keeps the lock", "end_idle", "end_those(...)", "0"),
    Bug("a kept lock needs no look", "is_current", "!*is_current", "_ || lane->is_leased"),
    Bug("an owner never looks at its files", "enter_owned", "_ < lane->check_at", "1"),
    Bug("the lock file is never looked at", "lane_lock_in_place", "lane->map && _", "1"),
    Bug("what was only stored is not looked for", "lead", "_ + TOUCH_S", "0"),
    Bug("a notice is not followed by a look", "lead", "tail_look(...)", "0"),
    Bug("a follower passes a fence", "read_whole", "has_fence(...)", "0"),
    Bug("a sync that had begun counts", "commit_turn", "commit->begun + 1", "_ - 1"),
    Bug("durable without a sync", "sync_segment", "fdatasync(...)", "0"),
    Bug("a failed sync is forgotten", "lead", "commit->error = _", "0"),
    Bug("a failed sync counts", "lead", "synced.step == DONE", "1"),
    Bug("the durable mark is not published", "write_durable", "write_mark(...)", "DONE"),
    Bug("another epoch is not noticed", "is_same", "is_sealed(...) && _ && _", "1"),
    Bug("a thread does not wait for a round", "wait_for_round", "waited == ENDED && _", "0"),
    Bug("written is durable to tasks", "receipt_is_at_level", "commit_is_ended(...)", "1"),
    Bug("watchers are not notified", "announce_end", "!is_watched", "1"),
    Bug("an append is not counted", "append_value", "appender->appends++", "0"),
    Bug("a list is one event", "append_value", "_->records += _", "appender->records++"),
    Bug("values go by an old count", "append_value", "_ >= appender->fresh_until", "0"),
    Bug("a failed log continues", "append_value", "!is_open", "0"),
    Bug("a key goes to another partition", "appender_for", "event_partition(...)", "0"),
    Bug("the checksum of a row leaves its value out", "checksum", "part < 5", "part < 4"),
    Bug("a page is larger than its limit", "has_room", "reader->bytes_left -= _", "0"),
    Bug("the first record of a page is left out", "has_room", "!reader->is_first", "1"),
    Bug("a checksum is not verified", "reader_look", "_ != read_u32(frame)", "0"),
    Bug("a missing key is an empty one", "columns_event", "bit_at(columns->key_bits, _)", "1"),
    Bug("headers are not sorted", "is_before", "_ || _", "0"),
    Bug("a quote is not escaped", "json_put_escape", r"*to++ = '\\'", "0"),
]
#: Where ends are written as well, these would not always show.
BUGS_OF_STORED_ENDS = [
    Bug("the end is not published", "lane_publish_end", "put_end(...)", "1"),
    Bug("the end is not stored", "put_end", "memcpy(lane->map->page, ...)", "0"),
    Bug("a shared tail is not read", "lane_read_tail", "memcpy(tail, ...)", TAIL_BEFORE),
    Bug("others are not caught up with", "lane_take_tail", "memcmp(tail, lane->end, _)", "0"),
    Bug("the fence is not looked at", "lane_publish_end", "is_fenced(fence)", "0"),
    Bug("a shared fence is not read", "get_fence", "memcpy(...)", "memset(fence, 0, FENCE_BYTES)"),
    Bug("a lost tail is believed", "get_fence", "__atomic_load_n(...)", "0"),
]


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sound sources, compiled."""
    folder = tmp_path_factory.mktemp("objects")
    for name, source in SOUND.items():
        compiled(folder / name, source)
    return folder


def compiled(path: Path, source: str) -> None:
    path.write_text(source)
    include = f"-I{SOURCES}"
    command = [COMPILERS[0], *FLAGS, "-w", include, "-c", str(path), "-o", f"{path}.o"]
    subprocess.run(command, check=True)


def checked(
    objects: Path, folder: Path, sources: Mapping[str, str], *, stored_only: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Return the outcome of the check, in a separate process, on a core of these sources."""
    library = folder / "core.so"
    changed = [name for name in SOUND if sources[name] != SOUND[name]]
    for name in changed:
        compiled(folder / name, sources[name])
    parts = [(folder if name in changed else objects) / f"{name}.o" for name in SOUND]
    command = [COMPILERS[0], *map(str, parts), *LINKING]
    subprocess.run([*command, "-o", str(library)], check=True)
    options = ["--stored-only"] if stored_only else []
    return subprocess.run(
        [sys.executable, "-m", "tests.core.lane_check", str(library), str(folder), *options],
        cwd=SOURCES.parents[2],
        env={**os.environ, "STRANDLINE_CORE": "on"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_sound_sources_pass_the_check(objects: Path, tmp_path: Path) -> None:
    answer = checked(objects, tmp_path, SOUND)

    assert answer.returncode == 0, answer.stderr


def test_sources_that_only_store_ends_pass_the_check_of_stored_ends(
    objects: Path, tmp_path: Path
) -> None:
    answer = checked(objects, tmp_path, STORED_ONLY.planted(SOUND), stored_only=True)

    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_is_caught(objects: Path, tmp_path: Path, bug: Bug) -> None:
    answer = checked(objects, tmp_path, bug.planted(SOUND))

    assert answer.returncode != 0
    assert "Error" in answer.stderr


@pytest.mark.parametrize("bug", BUGS_OF_STORED_ENDS, ids=str)
def test_a_planted_bug_of_stored_ends_is_caught(objects: Path, tmp_path: Path, bug: Bug) -> None:
    sources = bug.planted(STORED_ONLY.planted(SOUND))

    answer = checked(objects, tmp_path, sources, stored_only=True)

    assert answer.returncode != 0
    assert "Error" in answer.stderr
