"""Bugs that the conformance suite has to find, each a small change to one function."""

from types import ModuleType
from typing import NamedTuple

from strandline.log import (
    decide,
    draft,
    lags,
    ranges,
    retention,
    stored_cursors,
    terms,
    topics,
)
from strandline.log.access import Access
from strandline.log.cursors import ConsumerCursors
from strandline.log.identities import Identities
from strandline.log.local_watch import LocalWatch
from strandline.log.log import Log
from strandline.log.open_state import OpenState
from strandline.log.retention import Retention
from strandline.log.terms import Terms
from strandline.log.verifying import _Checking
from strandline.log.watches import WatchedPartition
from strandline.stores.memory import MemoryPartition, MemoryStore
from tests.planting import Bug


class Planted(NamedTuple):
    """A bug, and the rule that has to break."""

    bug: Bug
    rule: str

    def __str__(self) -> str:
        return f"{self.bug.title}-{self.rule}"


def _bug(owner: type | ModuleType, name: str, old: str, new: str, rule: str) -> Planted:
    return Planted(Bug(f"{owner.__name__}.{name}", owner, name, old, new), rule)


BUGS = (
    _bug(
        topics,
        "topic_settings",
        "encode_payload_schema(...)",
        "None",
        "a_declared_payload_schema_is_kept_with_the_settings",
    ),
    _bug(
        Log,
        "create_topic",
        "sorted_metadata(...)",
        "()",
        "a_schema_and_metadata_are_kept_with_the_settings",
    ),
    _bug(
        MemoryPartition,
        "release",
        "gone[-1].value",
        "gone[0].value",
        "trimming_keeps_the_proof",
    ),
    _bug(
        MemoryPartition,
        "release",
        "gone[-1].value",
        "self.anchor",
        "a_proof_goes_on_after_an_eviction",
    ),
    _bug(
        MemoryPartition,
        "add",
        "self.records[-1].value if _ else _",
        "self.anchor",
        "untouched_history_is_sound",
    ),
    _bug(
        _Checking,
        "_compare",
        "head.digest != self._value",
        "False",
        "a_head_that_does_not_agree_is_found",
    ),
    _bug(
        _Checking,
        "_expect",
        "offset < history.low",
        "False",
        "a_head_of_what_was_trimmed_is_not_confirmed",
    ),
    _bug(
        ConsumerCursors,
        "_move",
        "_check_generation(...)",
        "None",
        "a_holder_of_an_earlier_generation_is_refused",
    ),
    _bug(
        ConsumerCursors,
        "register",
        "known.generation > generation",
        "False",
        "a_holder_of_an_earlier_generation_is_refused",
    ),
    _bug(
        ConsumerCursors,
        "_cursor_at",
        "known.generation",
        "0",
        "a_holder_of_an_earlier_generation_is_refused",
    ),
    _bug(ConsumerCursors, "_moved", "max(...)", "end", "an_ack_never_goes_back"),
    _bug(
        ConsumerCursors,
        "_moved",
        "check_not_beyond(...)",
        "move.end",
        "an_ack_beyond_the_end_is_refused",
    ),
    _bug(
        ConsumerCursors,
        "held_at",
        "holds_retention(...)",
        "False",
        "trimming_stops_at_the_slowest_consumer",
    ),
    _bug(
        lags,
        "holds_retention",
        "_IDLE_US",
        "_IDLE_US * 9",
        "an_idle_consumer_no_longer_holds_trimming",
    ),
    _bug(
        decide,
        "decide",
        "max(...)",
        "now_us",
        "timestamps_never_go_back_within_a_partition",
    ),
    _bug(
        decide,
        "decide",
        "not originals",
        "True",
        "a_repeat_is_recognised_before_the_expected_offset",
    ),
    _bug(
        decide,
        "decide",
        "expected != head.next",
        "False",
        "an_expected_offset_is_kept_or_refused",
    ),
    _bug(
        decide,
        "_repeats",
        "index.find_key(...)",
        "None",
        "a_repeated_idempotency_key_returns_the_original",
    ),
    _bug(
        decide,
        "record_identities",
        "len(request.drafts)",
        "1",
        "an_idempotency_key_stands_for_a_whole_call",
    ),
    _bug(
        Retention,
        "apply",
        "least = self._first_within(...)",
        "pass",
        "a_limit_does_not_wait_for_consumers",
    ),
    _bug(
        Retention,
        "trim",
        "before if _ else held_at",
        "before",
        "retention_stops_at_the_slowest_consumer",
    ),
    _bug(
        ConsumerCursors,
        "delete",
        "self._store.remove_key(...)",
        "True",
        "a_deleted_consumer_starts_again",
    ),
    _bug(
        ranges,
        "check_range",
        "wanted.end < start",
        "False",
        "a_start_that_is_negative_or_beyond_the_end_is_refused",
    ),
    _bug(
        ranges,
        "check_range",
        "start < oldest",
        "False",
        "what_was_evicted_cannot_be_read_and_the_rest_can",
    ),
    _bug(
        MemoryStore,
        "evict",
        "found.release(...)",
        "_; found.low = found.oldest",
        "evicting_moves_no_mark_cursor_or_position",
    ),
    _bug(
        Retention,
        "_retained_from",
        "aged > state.oldest",
        "True",
        "retention_leaves_what_was_evicted_alone",
    ),
    _bug(
        ranges,
        "check_not_beyond",
        "offset > marks.high",
        "offset > marks.high + 1",
        "a_start_that_is_negative_or_beyond_the_end_is_refused",
    ),
    _bug(
        ranges,
        "count_within",
        "bytes_max is None",
        "not bytes_max",
        "a_limit_of_zero_returns_nothing_and_none_is_no_limit",
    ),
    _bug(
        retention,
        "_first_since",
        "bisect_left(...)",
        "run.end",
        "an_offset_is_found_by_its_time",
    ),
    _bug(
        Retention,
        "_first_within",
        "runs[-1].end - 1",
        "runs[-1].end",
        "retention_by_bytes_keeps_the_newest",
    ),
    _bug(
        WatchedPartition,
        "add_watch",
        "watch.notify(...)",
        "pass",
        "a_watch_hints_at_what_is_there_already",
    ),
    _bug(
        LocalWatch,
        "_drop",
        "self._hints.pop(...)",
        "pass",
        "a_removed_partition_gives_no_hint",
    ),
    _bug(
        Identities,
        "find_sequence",
        "sequence > producer.latest",
        "sequence not in producer.originals",
        "a_sequence_that_was_passed_over_is_a_conflict",
    ),
    _bug(
        Identities,
        "add_sequence",
        "_ > PRODUCER_SEQUENCES_KEPT",
        "len(producer.originals) >= PRODUCER_SEQUENCES_KEPT",
        "the_latest_sequences_are_recognised_and_no_older_ones",
    ),
    _bug(
        Identities,
        "add_key",
        "(tenant, key)",
        "(None, key)",
        "a_repeated_idempotency_key_returns_the_original",
    ),
    _bug(
        Identities,
        "expire",
        "now_us - original.timestamp_us <= _AGE_US",
        "True",
        "identities_are_kept_for_the_stated_time",
    ),
    _bug(
        topics,
        "check_new_topic",
        "check_case_twin(...)",
        "pass",
        "a_name_that_differs_only_by_case_is_refused",
    ),
    _bug(
        Access,
        "_find_if_any",
        "found.topic.id != topic.id",
        "False",
        "a_dropped_topic_is_gone_with_its_consumers",
    ),
    _bug(
        Terms,
        "_keyless",
        "partition_for_key(...)",
        "Partition(0)",
        "without_a_key_the_producer_or_idempotency_key_decides",
    ),
    _bug(terms, "owner", "parsed == topic.tenant", "True", "a_record_has_its_tenant"),
    _bug(
        draft,
        "draft",
        "size > bytes_max",
        "False",
        "a_record_as_large_as_allowed_is_taken_and_no_larger",
    ),
    _bug(
        MemoryPartition,
        "add",
        "self.records.add(placed)",
        "self.records.add(placed._replace(drafts=placed.drafts[::-1]))",
        "values_come_back_as_they_were",
    ),
    _bug(MemoryStore, "close", "self._watches.close()", "pass", "closing_the_log_ends_every_wait"),
    _bug(
        Access,
        "check_durable_only",
        "durable_only and not self.reaches_durable",
        "False",
        "a_durable_watch_hints_at_what_is_durable",
    ),
    _bug(
        LocalWatch,
        "remove",
        "self._unwatch(...)",
        "self._check_open(1)",
        "a_partition_of_a_dropped_topic_is_removed_without_a_word",
    ),
    _bug(
        LocalWatch,
        "_unwatch",
        "self._drop(...)",
        "pass",
        "a_partition_of_a_dropped_topic_is_removed_without_a_word",
    ),
    _bug(
        LocalWatch,
        "_check_open",
        "self.is_closed",
        "False",
        "a_closed_watch_takes_no_partition",
    ),
    _bug(
        OpenState,
        "check",
        "self._is_closed",
        "False",
        "after_close_every_call_is_refused",
    ),
    _bug(
        stored_cursors,
        "cursors_key",
        "tenant or ''",
        "''",
        "tenants_consumers_are_apart",
    ),
)
