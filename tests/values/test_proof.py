"""Heads of a proof: checked when loaded."""

import json
from typing import Any
from uuid import UUID

import pytest

from strandline.values import InvalidError, Offset, Partition, ProofHead

HEAD = ProofHead(
    UUID("01890a5d-ac96-774b-bcce-b302099a8057"),
    UUID("01890a5d-ac96-774b-bcce-b302099a8058"),
    Partition(3),
    Offset(7),
    bytes(range(32)),
)


def test_a_head_comes_back_from_its_json() -> None:
    assert ProofHead.from_json(HEAD.to_json()) == HEAD


@pytest.mark.parametrize(
    "bad",
    [
        {"version": 2},
        {"log_id": "no id"},
        {"partition": -1},
        {"offset": -1},
        {"offset": "7"},
        {"digest": ""},
        {"digest": "00" * 31},
        {"digest": "zz" * 32},
        {"more": 1},
    ],
)
def test_a_bad_head_is_refused_when_loaded(bad: dict[str, Any]) -> None:
    stored = json.loads(HEAD.to_json()) | bad

    with pytest.raises(InvalidError):
        ProofHead.from_json(json.dumps(stored).encode())


@pytest.mark.parametrize("data", [b"", b"null", b"[" * 100_000, b"\xff"])
def test_what_is_no_head_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidError):
        ProofHead.from_json(data)
