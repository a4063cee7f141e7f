"""A log that moves to a server of an engine, and away from it again."""

from collections.abc import Callable
from pathlib import Path

import pytest

import strandline as sl
from tests.moves.rich_log import content, new_source, trim_some

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("is_trimmed", [False, True], ids=["whole", "trimmed"])
def test_a_log_moves_there_and_back(
    tmp_path: Path, new_url: Callable[[], str], *, is_trimmed: bool
) -> None:
    source, there, back = new_source(tmp_path, "file"), new_url(), f"sqlite:{tmp_path / 'back'}"
    if is_trimmed:
        with sl.open(source) as log:
            trim_some(log)

    sl.copy(source, there)
    sl.copy(there, back)

    with (
        sl.open(source, mode="read") as old,
        sl.open(there) as new,
        sl.open(back, mode="read") as last,
    ):
        assert content(old) == content(new) == content(last)
        raw = new.topic("raw", tenant="acme")
        assert new.append(raw, b"first", idempotency_key="early").is_repeat
        assert new.append(
            "orders", sl.Event("p", {}), partition=0, producer="till", sequence=8
        ).is_repeat
        assert all(report.is_sound for report in new.verify("orders"))
