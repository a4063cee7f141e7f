"""The ledger finds each way in which a log can break its word, and nothing else."""

from copy import deepcopy

from tests.processes.ledger import Ledger, Rule, Stored, Value


def three_acknowledged() -> Ledger:
    ledger = Ledger()
    for number in range(3):
        ledger.offer("a", number)
        ledger.acknowledge("a", number, [(0, number)])
    return ledger


def holding(*numbers: int, low: int = 0, producer: str = "a") -> dict[int, Stored]:
    records = [(offset, Value(producer, n)) for offset, n in enumerate(numbers, low)]
    return {0: Stored(low, low + len(numbers), records)}


def rules(ledger: Ledger, stored: dict[int, Stored]) -> set[Rule]:
    return {finding.rule for finding in ledger.check(stored)}


def test_what_was_acknowledged_is_there_and_nothing_is_wrong() -> None:
    assert not three_acknowledged().check(holding(0, 1, 2))


def test_an_acknowledged_value_that_is_missing_is_lost() -> None:
    assert rules(three_acknowledged(), holding(0, 1)) == {Rule.LOST}


def test_a_value_that_was_never_offered_is_a_phantom() -> None:
    assert rules(three_acknowledged(), holding(0, 1, 2, 7)) == {Rule.PHANTOM}


def test_a_value_that_is_there_twice_is_duplicated() -> None:
    assert Rule.DUPLICATED in rules(three_acknowledged(), holding(0, 1, 2, 2))


def test_values_out_of_their_producers_order_are_reordered() -> None:
    ledger = Ledger()
    for number in range(2):
        ledger.offer("a", number)

    assert rules(ledger, holding(1, 0)) == {Rule.REORDERED}


def test_an_offset_without_a_record_is_a_gap() -> None:
    ledger = Ledger()
    for number in range(2):
        ledger.offer("a", number)
    stored = {0: Stored(0, 3, [(0, Value("a", 0)), (2, Value("a", 1))])}

    assert rules(ledger, stored) == {Rule.GAP}


def test_a_high_water_mark_beyond_the_records_is_a_gap() -> None:
    stored = holding(0, 1, 2)
    stored[0].high = 4

    assert rules(three_acknowledged(), stored) == {Rule.GAP}


def test_a_refused_value_that_is_visible_is_an_aborted_read() -> None:
    ledger = three_acknowledged()
    ledger.offer("a", 3)
    ledger.refuse("a", 3)

    assert rules(ledger, holding(0, 1, 2, 3)) == {Rule.ABORTED}


def test_a_refused_value_that_is_offered_again_may_be_there() -> None:
    ledger = three_acknowledged()
    ledger.offer("a", 3)
    ledger.refuse("a", 3)
    ledger.offer("a", 3)

    assert not ledger.check(holding(0, 1, 2, 3))


def test_one_offset_for_two_values_is_found_without_looking() -> None:
    ledger = three_acknowledged()
    ledger.offer("b", 0)
    ledger.acknowledge("b", 0, [(0, 1)])

    assert {finding.rule for finding in ledger.early} == {Rule.TWO_VALUES}


def test_one_value_at_two_offsets_is_found_without_looking() -> None:
    ledger = three_acknowledged()
    ledger.acknowledge("a", 1, [(0, 9)])

    assert {finding.rule for finding in ledger.early} == {Rule.TWO_OFFSETS}


def test_a_value_at_another_offset_than_acknowledged_has_moved() -> None:
    ledger = three_acknowledged()
    ledger.offer("b", 0)
    stored = {0: Stored(0, 4, [(n + 1, Value("a", n)) for n in range(3)])}
    stored[0].records = [(0, Value("b", 0)), *stored[0].records]

    assert rules(ledger, stored) == {Rule.MOVED}


def test_half_of_an_append_is_torn() -> None:
    ledger = three_acknowledged()
    ledger.offer("a", 3, 2)

    assert not ledger.check(holding(0, 1, 2))
    assert not ledger.check(holding(0, 1, 2, 3, 4))
    assert rules(ledger, holding(0, 1, 2, 3)) == {Rule.TORN}


def test_what_was_trimmed_on_request_is_not_lost() -> None:
    ledger = three_acknowledged()
    ledger.lows[0].ask(2)

    assert not ledger.check(holding(0, 1, 2))
    assert not ledger.check(holding(2, low=2))


def test_a_mark_that_was_not_requested_and_one_that_went_back_are_found() -> None:
    ledger = three_acknowledged()
    assert rules(ledger, holding(1, 2, low=1)) == {Rule.WENT_TOO_FAR}

    ledger.lows[0].promise(1)
    assert rules(ledger, holding(0, 1, 2)) == {Rule.WENT_BACK}


def test_a_cursor_behind_its_ack_is_found() -> None:
    ledger = three_acknowledged()
    ledger.cursors[0].promise(2)

    assert rules(ledger, holding(0, 1, 2)) == {Rule.WENT_BACK}


def test_topics_are_there_from_their_creation_until_they_are_dropped() -> None:
    ledger = Ledger()
    ledger.open_topic("new", settled=True)
    ledger.drop_topic("old", settled=True)
    ledger.drop_topic("either", settled=False)

    assert not ledger.check({}, ["new"])
    assert not ledger.check({}, ["new", "either"])
    assert [f.rule for f in ledger.check({}, ["old"])] == [Rule.TOPIC, Rule.TOPIC]


def test_after_a_restored_copy_only_what_it_held_counts() -> None:
    ledger = three_acknowledged()
    older = deepcopy(ledger)
    ledger.offer("a", 3)
    ledger.acknowledge("a", 3, [(0, 3)])

    ledger.roll_back_to(older)
    ledger.offer("b", 0)
    ledger.acknowledge("b", 0, [(0, 3)])

    stored = holding(0, 1, 2)
    stored[0].records = [*stored[0].records, (3, Value("b", 0))]
    stored[0].high = 4
    assert not ledger.check(stored)


def test_the_latest_append_without_an_outcome_is_the_one_to_repeat() -> None:
    ledger = three_acknowledged()
    assert ledger.unsettled("a") is None

    ledger.offer("a", 3, 4)

    assert ledger.unsettled("a") == range(3, 7)


def test_an_append_without_an_outcome_is_found_before_one_that_was_refused() -> None:
    ledger = three_acknowledged()
    ledger.offer("a", 3, 2)
    ledger.refuse("a", 3, 2)

    ledger.offer("a", 3)

    assert ledger.unsettled("a") == range(3, 4)
