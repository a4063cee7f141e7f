"""The tests of tiering are worth what they find: bugs planted in it are found by one of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.log.retention import Retention
from strandline.tiering import compacting, copying, removal, segment_view, tiered_store
from strandline.tiering.cold_history import ColdHistory
from strandline.tiering.cold_reading import TieredReading
from strandline.tiering.cold_segments import ColdSegments
from strandline.tiering.partition_copies import PartitionCopies
from strandline.tiering.tiered_store import TieredStore
from strandline.tiering.tiering_run import TieringRun
from tests.logs import memory_log
from tests.planting import Planted, bug_in
from tests.tiering import (
    test_catalogue,
    test_compacting,
    test_copies,
    test_damage,
    test_proof,
    test_reads,
    test_steps,
    test_together,
)
from tests.tiering.faulty_store import CrashError

pytestmark = pytest.mark.heavy

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
    test_reads.test_a_reader_in_the_middle_of_a_range_continues_from_the_copy("file", folder)


def a_trim_overtakes(folder: Path) -> None:
    test_reads.test_a_reader_that_a_trim_overtakes_in_the_cold_half_is_reported(folder)


def evicting_without_a_copy(folder: Path) -> None:
    test_reads.test_evicting_what_has_no_copy_is_refused(folder)


def one_copy_of_a_run(_: Path) -> None:
    with memory_log() as log:
        test_catalogue.test_the_same_run_is_copied_by_one_copy_at_a_time(log)


def a_run_that_grew(folder: Path) -> None:
    test_together.test_a_run_that_grew_between_two_tierers_is_copied_once(folder)


def a_stale_list(folder: Path) -> None:
    test_steps.test_a_stale_list_does_no_harm(folder)


def orphans(folder: Path) -> None:
    test_steps.test_orphans_are_found_and_removed_and_nothing_else(folder)


def a_run_that_grew_at_the_end(folder: Path) -> None:
    test_together.test_a_copy_is_not_finished_after_one_that_was_finished_a_moment_ago(folder)


def a_refused_copy(folder: Path) -> None:
    test_together.test_a_refused_copy_that_another_process_finishes_is_kept(folder)


def a_deleted_copy(folder: Path) -> None:
    test_together.test_a_copy_that_is_deleted_as_it_is_put_is_left_alone(folder)


def a_lost_copy(folder: Path) -> None:
    test_together.test_a_copy_that_the_store_did_not_keep_is_an_error(folder)


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


def a_dropped_topic(folder: Path) -> None:
    test_reads.test_a_dropped_topic_takes_its_copies_with_it(folder)


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


def a_fault_in_a_merge(folder: Path) -> None:
    test_compacting.test_a_fault_at_any_call_of_a_merge_is_made_good_by_the_next(
        folder, CrashError, is_after=True
    )


def an_erasure_in_a_merge(folder: Path) -> None:
    test_compacting.test_what_is_erased_during_a_merge_does_not_come_back(folder)


def merges_at_once(folder: Path) -> None:
    test_compacting.test_only_finished_copies_that_follow_each_other_are_merged(folder)


def a_late_copy(folder: Path) -> None:
    test_compacting.test_a_process_that_knows_nothing_of_a_merge_copies_nothing_again(folder)


def a_lost_merge(folder: Path) -> None:
    name = "test_a_merged_object_that_is_lost_within_the_grace_gives_way_to_what_it_was_made_of"
    getattr(test_compacting, name)(folder)


def the_grace(folder: Path) -> None:
    test_compacting.test_what_was_merged_is_deleted_after_the_grace_and_not_before(folder)


def a_saved_merge(folder: Path) -> None:
    test_compacting.test_the_saved_catalogue_knows_what_was_merged(folder)


def a_torn_merge(folder: Path) -> None:
    test_compacting.test_a_torn_merged_object_replaces_nothing(folder)


def packed_batches(folder: Path) -> None:
    test_compacting.test_batches_that_are_packed_are_not_merged_with_others(folder)


def a_reader_of_merged(folder: Path) -> None:
    test_compacting.test_a_reader_that_holds_a_merged_object_continues(folder)


BUGS = (
    bug_in(TieringRun, "_finish", "fault is not None", "False", a_torn_upload),
    bug_in(
        TieringRun, "_fault", "_ != (segment.size_bytes, segment.digest)", "False", a_wrong_copy
    ),
    bug_in(TieringRun, "_is_right", "self._fault(...) is None", "True", a_wrong_copy),
    bug_in(TieringRun, "evict", "kept -= _", "pass", limits),
    bug_in(ColdSegments, "rows", "digest_of(...) != segment.digest", "False", flipped_bytes),
    bug_in(ColdSegments, "check_kept", "offset < low", "False", a_trim_overtakes),
    bug_in(
        TieredStore,
        "evict",
        "before > _.evicted(...)",
        "False",
        evicting_without_a_copy,
    ),
    bug_in(TieredStore, "read", "type(found) is _READ_AT_ONCE", "True", a_reader_in_the_middle),
    bug_in(TieredStore, "drop_topic", "remove_dropped(...)", "pass", a_dropped_topic),
    bug_in(TieredStore, "segments", "[*cold, *runs]", "runs", retention),
    bug_in(
        tiered_store.Tier,
        "over",
        "TieredStore(...)",
        "TieredStore(store, clock)",
        a_reader_in_the_middle,
    ),
    bug_in(TieredStore, "_going_on", "cast(...)", "wanted.start", a_reader_in_the_middle),
    bug_in(Retention, "_first_within", "over, before = _, _", "before = 0", retention),
    bug_in(TieringRun, "_settle_in_store", "self._retire(...)", "pass", a_deletion_that_fails),
    bug_in(
        TieredReading,
        "_all_records",
        "rows.batches(at, upto)",
        "rows.batches(at + 1, upto)",
        a_reader_in_the_middle,
    ),
    bug_in(removal, "sweep", "name not in known", "True", a_stale_list),
    bug_in(removal, "sweep", "objects.delete(...)", "pass", orphans),
    bug_in(segment_view, "_check_added", "other is not None", "False", one_copy_of_a_run),
    bug_in(PartitionCopies, "is_overlapped", "at > 0", "False", a_run_that_grew),
    bug_in(segment_view, "_check_finished", "step.is_apart", "False", a_run_that_grew_at_the_end),
    bug_in(TieringRun, "_make_way", "all(...)", "True", a_refused_copy),
    bug_in(TieringRun, "_is_deleted", "all(...)", "False", a_deleted_copy),
    bug_in(TieringRun, "_is_deleted", "all(...)", "True", a_lost_copy),
    bug_in(segment_view, "_check_not_needed", "start >= end", "True", the_only_copy),
    bug_in(segment_view, "_check_eviction", "reached < step.before", "False", the_only_copy),
    bug_in(copying, "_read_proof", "following.anchor.hex()", "history.anchor.hex()", cold_history),
    bug_in(
        ColdHistory, "value_before", "_[: offset - _]", "rows.digests()[:0]", a_trim_in_cold_history
    ),
    bug_in(
        ColdHistory,
        "_of_copy",
        "Piece([entry], values[_])",
        "Piece([entry], self._chain.link_kept((before, *values)[entry.offset - first], entry))",
        forged(test_proof.changed_row, [9]),
    ),
    bug_in(
        ColdHistory,
        "_wrong_digests",
        "_.digest_kept(...) != digest",
        "False",
        forged(test_proof.swapped_digests, [9, 11]),
    ),
    bug_in(
        ColdHistory,
        "_of_copy",
        "after if _ else None",
        "values[-1]",
        forged(test_proof.changed_row_and_digest, [7]),
    ),
    bug_in(TieredStore, "history", "[Piece((), stored.anchor)]", "[]", a_forged_last_copy),
    bug_in(TieringRun, "_make_way", "_.delete(...)", "pass", an_erasure_in_a_merge),
    bug_in(segment_view, "_check_finished", "len(...) < len(...)", "False", merges_at_once),
    bug_in(
        segment_view, "_check_merged", "copies.successor(...) is not None", "False", merges_at_once
    ),
    bug_in(
        segment_view, "_check_merged", "step.start <= known.start <= at", "True", merges_at_once
    ),
    bug_in(
        segment_view, "_check_merged", "step.merges and at != step.end", "False", merges_at_once
    ),
    bug_in(segment_view, "_check_added", "copies.is_in_merged(...)", "False", a_late_copy),
    bug_in(TieringRun, "remove_merged", "since_us <= until_us", "True", the_grace),
    bug_in(TieringRun, "remove_merged", "self._retire(...)", "pass", a_fault_in_a_merge),
    bug_in(TieringRun, "_finish", "fault is not None", "False", a_torn_merge),
    bug_in(compacting, "uniform_parts", "footer.is_packed == was_packed", "True", packed_batches),
    bug_in(PartitionCopies, "_take_out", "self._put_in(merged)", "pass", a_lost_merge),
    bug_in(PartitionCopies, "put", "self._remove(merged)", "pass", a_saved_merge),
    bug_in(ColdSegments, "fetched", "self.catch_up(...)", "pass", a_reader_of_merged),
    bug_in(PartitionCopies, "find", "run[0] <= offset < run[1]", "True", epochs),
    bug_in(
        PartitionCopies,
        "_covering",
        "self._reach[index] > offset",
        "self._sorted[index].end > offset",
        overlapping_copies,
    ),
)


@pytest.mark.parametrize("planted", BUGS, ids=str)
def test_a_planted_bug_is_found(planted: Planted, tmp_path: Path) -> None:
    sound, broken = tmp_path / "sound", tmp_path / "broken"
    sound.mkdir()
    broken.mkdir()
    planted.scenario(sound)

    with planted.bug.planted(), pytest.raises((Exception, pytest.fail.Exception)):
        planted.scenario(broken)
