"""The findings of `verify` for a changed history, in any store."""

from collections.abc import Callable

import pytest

from strandline.log import Kept, Log, Piece
from strandline.log.history import History
from strandline.log.verifying import check_history
from strandline.values import Event, ProofReport
from tests.logs import memory_log

COUNT = 5


def kept(*, proof: bool = True) -> tuple[Log, History]:
    log = memory_log()
    log.create_topic("orders", proof=proof)
    for number in range(COUNT):
        log.append("orders", Event("a", number))
    return log, log.history("orders", 0)


def found(history: History, pieces: list[Piece]) -> list[tuple[int, str]]:
    report = check_history(history._replace(pieces=pieces), ())
    assert report.head is None
    return [(each.offset, each.reason) for each in report.findings]


def pieces_of(history: History) -> list[Piece]:
    pieces = [each for each in history.pieces if isinstance(each, Piece)]
    entries: list[Kept] = [entry for piece in pieces for entry in piece.entries]
    value = history.anchor or history.chain.origin
    single = []
    for entry in entries:
        value = history.chain.link_kept(value, entry)
        single.append(Piece([entry], value))
    return single


Change = Callable[[list[Piece]], list[Piece]]
CHANGES: dict[str, tuple[Change, int, str]] = {
    "records are missing": (lambda each: [*each[:1], *each[3:]], 1, "from here to 2 are missing"),
    "the last is missing": (lambda each: each[:-1], COUNT - 1, "are missing"),
    "a record is there twice": (lambda each: [*each[:2], *each[1:]], 1, "a second record"),
    "a value is missing": (
        lambda each: [Piece((), None), *each],
        0,
        "no proof is stored for what lies before",
    ),
    "a value is another": (
        lambda each: [each[0], Piece((), bytes(32)), *each[1:]],
        1,
        "what lies before is not what was written there",
    ),
    "a record has no proof": (
        lambda each: [each[0], each[1]._replace(value=None), *each[2:]],
        1,
        "no proof is stored for the records from 1 to 1",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_of_a_history_is_found_at_its_place(name: str) -> None:
    change, offset, reason = CHANGES[name]
    _, history = kept()
    pieces = pieces_of(history)
    sound = check_history(history._replace(pieces=pieces), ())
    assert sound.is_sound, sound.findings

    findings = found(history, change(pieces))

    assert [each for each in findings if each[0] == offset and reason in each[1]], findings


def test_a_head_of_a_topic_that_keeps_no_proof_any_more_is_found() -> None:
    _, history = kept(proof=False)
    head = history.chain.head(COUNT, bytes(32))

    report: ProofReport = check_history(history, [head])

    assert [(each.offset, "keeps no proof" in each.reason) for each in report.findings] == [
        (COUNT, True)
    ]


def test_a_history_says_which_part_it_is() -> None:
    log, _ = kept()

    shown = repr(log.history("orders", 0, 1, 3))

    assert shown == "History(partition=0, low=1, high=3, proved)"
