"""The tests of tiering are worth what they find: bugs planted in it are found by one of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strandline.tiering import (
    cold_segments,
    copying,
    partition_copies,
    removal,
    segment_view,
    tiered_log,
    tiering,
)
from strandline.tiering.cold_history import ColdHistory
from strandline.tiering.cold_reading import TieredReading
from tests.conformance.planted_bugs import Bug
from tests.logs import memory_log
from tests.tiering import (
    test_catalogue,
    test_copies,
    test_damage,
    test_proof,
    test_reads,
    test_steps,
    test_together,
)
from tests.tiering.faulty_store import CrashError

pytestmark = pytest.mark.slow

Scenario = Callable[[Path], None]


def a_torn_upload(folder: Path) -> None:
    test_steps.test_a_torn_upload_is_found_and_made_good(folder)


def a_crash_after_any_step(folder: Path) -> None:
    test_steps.test_a_crash_after_any_step_is_made_good_by_the_next_run(folder, "memory")


def a_fault_at_any_call(folder: Path) -> None:
    test_steps.test_a_fault_at_any_call_of_the_store_is_made_good_by_the_next_run(
        folder, CrashError, is_after=True
    )


def a_wrong_copy(folder: Path) -> None:
    test_damage.test_records_with_a_wrong_copy_stay_and_are_copied_again(folder, "sqlite", "flip")


def flipped_bytes(folder: Path) -> None:
    test_damage.test_any_flipped_byte_of_a_cold_object_gives_an_error_that_names_it(folder)


def a_deletion_that_fails(folder: Path) -> None:
    test_steps.test_a_fault_while_copies_of_what_was_trimmed_are_deleted_is_made_good(
        folder, 1, is_after=False
    )


def a_reader_in_the_middle(folder: Path) -> None:
    test_reads.test_a_reader_in_the_middle_of_a_range_goes_on_from_the_copy("file", folder)


def a_trim_overtakes(folder: Path) -> None:
    test_reads.test_a_reader_that_a_trim_overtakes_in_the_cold_half_is_told(folder)


def evicting_without_a_copy(folder: Path) -> None:
    test_reads.test_evicting_what_has_no_copy_is_refused(folder)


def several_tierers(folder: Path) -> None:
    test_together.test_several_tierers_make_one_copy_of_each_run(folder, "sqlite")


def a_stale_list(folder: Path) -> None:
    test_steps.test_a_stale_list_does_no_harm(folder)


def orphans(folder: Path) -> None:
    test_steps.test_orphans_are_found_and_removed_and_nothing_else(folder)


def overlapping_copies(_: Path) -> None:
    test_copies.test_overlapping_copies_hide_nothing()


def epochs(_: Path) -> None:
    test_copies.test_an_offset_is_found_in_its_own_epoch_only()


def the_only_copy(_: Path) -> None:
    with memory_log() as log:
        test_catalogue.test_the_only_copy_of_what_was_evicted_is_not_deleted_before_it_is_trimmed(
            log
        )


def limits(folder: Path) -> None:
    test_together.test_local_limits_keep_what_they_say(folder)


def retention(folder: Path) -> None:
    test_reads.test_retention_counts_both_halves(folder)


def cold_history(folder: Path) -> None:
    test_proof.test_history_is_verified_across_hot_and_cold("sqlite", folder)


def a_trim_in_cold_history(folder: Path) -> None:
    test_proof.test_a_trim_within_the_copies_keeps_the_proof("file", folder)


def forged(forge: test_proof.Forge, offsets: list[int]) -> Scenario:
    def a_forged_copy(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            test_proof.test_a_forged_copy_is_found("memory", forge, offsets, folder, patch)

    return a_forged_copy


def a_forged_last_copy(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_proof.test_a_forged_last_copy_is_found_by_what_the_log_itself_keeps(folder, patch)


RUN = tiering.TieringRun
COPIES = partition_copies.PartitionCopies
COLD = cold_segments.ColdSegments
LOG = tiered_log.TieredLog

BUGS: tuple[tuple[Any, str, str, str, Scenario], ...] = (
    (RUN, "_finish", "if fault is not None:", "if False:", a_torn_upload),
    (RUN, "_fault", "!= (segment.size_bytes, segment.digest)", "== (0, '')", a_wrong_copy),
    (RUN, "_is_right", "if self._fault(segment) is None:", "if True:", a_wrong_copy),
    (RUN, "evict", "kept -= segment.record_bytes", "pass", limits),
    (COLD, "rows", "if digest_of(content) != segment.digest:", "if False:", flipped_bytes),
    (COLD, "check_kept", "if offset < low:", "if False:", a_trim_overtakes),
    (
        LOG,
        "evict",
        "if before > self._cold().evicted(place):",
        "if False:",
        evicting_without_a_copy,
    ),
    (LOG, "_going_on", 'cast("int", error.fields["offset"])', "wanted[0]", a_reader_in_the_middle),
    (LOG, "_first_within", "over, before = over - run.size_bytes", "before, _ = 0", retention),
    (RUN, "settle", "self._retire(segment)", "pass", a_deletion_that_fails),
    (
        TieredReading,
        "_all_records",
        "rows.batches(at, upto)",
        "rows.batches(at + 1, upto)",
        a_reader_in_the_middle,
    ),
    (removal, "sweep", "if name not in known:", "if True:", a_stale_list),
    (removal, "sweep", "objects.delete(name)", "pass", orphans),
    (segment_view, "_check_added", "and other.state in _LIVE", "and False", several_tierers),
    (segment_view, "_check_not_needed", "start >= end", "True", the_only_copy),
    (segment_view, "_check_eviction", "reached < step.before", "False", the_only_copy),
    (copying, "_read_proof", "following.anchor.hex()", "history.anchor.hex()", cold_history),
    (ColdHistory, "value_before", "[: offset - rows.about.start]", "[:0]", a_trim_in_cold_history),
    (
        ColdHistory,
        "_of_copy",
        "Piece([entry], values[entry.offset - first])",
        "Piece([entry], self._chain.link_kept((before, *values)[entry.offset - first], entry))",
        forged(test_proof.changed_row, [9]),
    ),
    (
        ColdHistory,
        "_wrong_digests",
        "self._chain.digest_kept(entry) != digest",
        "False",
        forged(test_proof.swapped_digests, [9, 11]),
    ),
    (
        ColdHistory,
        "_of_copy",
        "after if stop == rows.about.end else None",
        "values[-1]",
        forged(test_proof.changed_row_and_digest, [7]),
    ),
    (LOG, "history", "[Piece((), stored.anchor)]", "[]", a_forged_last_copy),
    (COPIES, "find", "run[0] <= offset < run[1]", "True", epochs),
    (
        COPIES,
        "_covering",
        "self._reach[index] > offset",
        "self._sorted[index].end > offset",
        overlapping_copies,
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug[1]}-{bug[4].__name__}")
def test_a_planted_bug_is_found(
    bug: tuple[Any, str, str, str, Scenario], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, function, right, wrong, scenario = bug
    sound, broken = tmp_path / "sound", tmp_path / "broken"
    sound.mkdir()
    broken.mkdir()
    scenario(sound)

    Bug(home, function, right, wrong, scenario.__name__).plant(monkeypatch)

    with pytest.raises((Exception, pytest.fail.Exception)):
        scenario(broken)
