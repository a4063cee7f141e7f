"""Bugs that the conformance suite has to find, each a small change to one function."""

import inspect
import sys
import textwrap
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from strandline.log import Log, draft, terms
from strandline.log.identities import Identities
from strandline.log.local_watch import LocalWatch
from strandline.log.memory_partition import MemoryPartition
from strandline.log.memory_topics import MemoryTopics
from strandline.log.terms import Terms
from strandline.log.verifying import _Checking


@dataclass(frozen=True)
class Bug:
    """In the source of a function `right` becomes `wrong`, and the rule must break."""

    home: type | ModuleType
    function: str
    right: str
    wrong: str
    rule: str

    def __str__(self) -> str:
        return f"{self.home.__name__}.{self.function}-{self.rule}"

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Put the changed function in the place of the right one, wherever it is known."""
        function = getattr(self.home, self.function)
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.right) == 1, f"the source has changed: {self}"
        made: dict[str, Any] = {}
        module = vars(sys.modules[function.__module__])
        exec(source.replace(self.right, self.wrong), module, made)  # noqa: S102 Our own source.
        for place in (self.home, *sys.modules.values()):
            if getattr(place, self.function, None) is function:
                patch.setattr(place, self.function, made[self.function])


BUGS = (
    Bug(
        Log,
        "create_topic",
        "metadata=sorted_metadata(metadata),",
        "metadata=(),",
        "a_schema_and_metadata_are_kept_with_the_settings",
    ),
    Bug(
        MemoryPartition,
        "_let_go",
        "self._value_before(self._local + gone)",
        "self._value_before(self._local)",
        "trimming_keeps_the_proof",
    ),
    Bug(
        MemoryPartition,
        "_let_go",
        "self._value_before(self._local + gone)",
        "self._chain.origin",
        "a_proof_goes_on_after_an_eviction",
    ),
    Bug(
        MemoryPartition,
        "_add",
        "value = self._chain.link_kept(value, entry)",
        "value = self._chain.link_kept(self._chain.origin, entry)",
        "untouched_history_is_sound",
    ),
    Bug(
        _Checking,
        "_compare",
        "elif head.digest != self._value:",
        "elif False:",
        "a_head_that_does_not_agree_is_found",
    ),
    Bug(
        _Checking,
        "_expect",
        "elif offset < history.low:",
        "elif False:",
        "a_head_of_what_was_trimmed_is_not_confirmed",
    ),
    Bug(MemoryPartition, "ack", "max(offset, known.offset)", "offset", "an_ack_never_goes_back"),
    Bug(
        MemoryPartition,
        "ack",
        "self._check_not_beyond(end)",
        "end",
        "an_ack_beyond_the_end_is_refused",
    ),
    Bug(
        MemoryPartition,
        "_held_at",
        "if self._is_live(cursor)",
        "if False",
        "trimming_stops_at_the_slowest_consumer",
    ),
    Bug(
        MemoryPartition,
        "_is_live",
        "<= _SILENCE_US",
        "<= _SILENCE_US * 9",
        "a_silent_consumer_no_longer_holds_trimming",
    ),
    Bug(
        MemoryPartition,
        "append",
        "max(self._clock.now_us(), self._timestamp_us)",
        "self._clock.now_us()",
        "timestamps_never_go_back_within_a_partition",
    ),
    Bug(
        MemoryPartition,
        "append",
        "if not placed:",
        "if True:",
        "a_repeat_is_recognised_before_the_expected_offset",
    ),
    Bug(
        MemoryPartition,
        "_check_kept",
        "raise TrimmedError(self._low, **self._place(offset))",
        "offset = self._low",
        "a_trim_goes_on_below_and_beyond_what_was_evicted",
    ),
    Bug(
        MemoryPartition,
        "evict",
        "self._let_go(self._check_not_beyond(before))",
        "self._trim(self._check_not_beyond(before), force=True)",
        "evicting_moves_no_mark_cursor_or_position",
    ),
    Bug(
        MemoryPartition,
        "_aged",
        "self._local + kept if kept else self._low",
        "self._local + kept",
        "retention_leaves_what_was_evicted_alone",
    ),
    Bug(
        MemoryPartition,
        "_check_not_beyond",
        "offset > self._high",
        "offset > self._high + 1",
        "a_start_that_is_negative_or_beyond_the_end_is_refused",
    ),
    Bug(
        MemoryPartition,
        "read",
        "if records_max is not None:",
        "if records_max:",
        "a_limit_of_zero_gives_nothing_and_none_is_no_limit",
    ),
    Bug(
        MemoryPartition,
        "offset_at",
        "bisect_left(",
        "__import__('bisect').bisect_right(",
        "an_offset_is_found_by_its_time",
    ),
    Bug(
        MemoryPartition,
        "_over",
        "self._entries[:-1]",
        "self._entries",
        "retention_by_bytes_keeps_the_newest",
    ),
    Bug(
        MemoryPartition,
        "add_watch",
        "watch.tell(self._hint())",
        "pass",
        "a_watch_hints_at_what_is_there_already",
    ),
    Bug(
        LocalWatch,
        "_drop",
        "self._hints.pop(place, None)",
        "pass",
        "a_removed_partition_gives_no_hint",
    ),
    Bug(
        Identities,
        "find_sequence",
        "if producer is None or sequence > producer.latest:",
        "if producer is None or sequence not in producer.originals:",
        "a_sequence_that_was_passed_over_is_a_conflict",
    ),
    Bug(
        Identities,
        "add_sequence",
        "> PRODUCER_SEQUENCES_KEPT",
        ">= PRODUCER_SEQUENCES_KEPT",
        "the_latest_sequences_are_recognised_and_no_older_ones",
    ),
    Bug(
        Identities,
        "add_key",
        "self._keys[tenant, key]",
        "self._keys[None, key]",
        "a_repeated_idempotency_key_returns_the_original",
    ),
    Bug(
        Identities,
        "expire",
        "now_us - original.timestamp_us <= _AGE_US",
        "True",
        "identities_are_kept_for_the_stated_time",
    ),
    Bug(
        MemoryTopics,
        "create",
        "check_case_twin(name, self._names(tenant))",
        "pass",
        "a_name_that_differs_only_by_case_is_refused",
    ),
    Bug(
        MemoryTopics,
        "find",
        "found.topic.id != topic.id",
        "False",
        "a_dropped_topic_is_gone_with_its_consumers",
    ),
    Bug(
        Terms,
        "_keyless",
        "partition_for_key(name, partitions)",
        "Partition(0)",
        "without_a_key_the_producer_or_idempotency_key_decides",
    ),
    Bug(terms, "owner", "parsed == topic.tenant", "True", "a_record_says_whose_it_is"),
    Bug(
        draft,
        "draft",
        "size > bytes_max",
        "False",
        "a_record_as_large_as_allowed_is_taken_and_no_larger",
    ),
    Bug(
        draft,
        "load",
        "key, body.headers_json",
        "None, body.headers_json",
        "values_come_back_as_they_were",
    ),
    Bug(Log, "close", "watch.close()", "pass", "closing_the_log_ends_every_wait"),
    Bug(
        Log,
        "watch",
        "if durable_only:",
        "if False:",
        "a_durable_watch_hints_at_what_is_durable",
    ),
    Bug(
        LocalWatch,
        "remove",
        "self._forget(topic, number)",
        "raise",
        "a_partition_of_a_dropped_topic_is_removed_without_a_word",
    ),
    Bug(
        LocalWatch,
        "_forget",
        "self._drop(place)",
        "pass",
        "a_partition_of_a_dropped_topic_is_removed_without_a_word",
    ),
    Bug(
        LocalWatch,
        "_check_open",
        "if self._is_closed:",
        "if False:",
        "a_closed_watch_takes_no_partition",
    ),
    Bug(
        Log,
        "_check_open",
        "raise _closed()",
        "return",
        "after_close_every_call_is_refused",
    ),
)
