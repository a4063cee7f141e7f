"""Which core a process uses, and where it is shown."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import strandline as sl
from strandline._core import CORE, IS_COMPILED
from strandline.cli.checkup import CheckResult, look, place_at
from strandline.values import Offset, Partition, Record
from tests.core.plain import MOMENT, needs_core


def said_by(code: str, **variables: str) -> str:
    """Return what another process prints."""
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.strip()


def test_the_log_and_doctor_say_which_core_is_in_use(tmp_path: Path) -> None:
    with sl.open("memory:") as log:
        assert log.describe().core == CORE
        assert repr(log).endswith(f"core={CORE!r})")
    (found,) = [each for each in look(place_at(str(tmp_path))) if each.check == "core"]
    assert found.found == CORE
    assert (found.verdict is CheckResult.OK) == IS_COMPILED


@pytest.mark.slow
def test_a_process_can_do_without_the_core() -> None:
    code = "import strandline as sl; print(sl.open('memory:').describe().core)"

    assert said_by(code, STRANDLINE_CORE="off") == "plain Python (STRANDLINE_CORE=off)"


@needs_core
def test_a_core_that_was_built_from_other_sources_is_not_used() -> None:
    code = (
        "from strandline._core import core\n"
        "import sys; del sys.modules['strandline._core']\n"
        "core.INTERFACE += 1\n"
        "from strandline._core import CORE; print(CORE)"
    )

    assert said_by(code) == "plain Python (built from other sources, build it again)"


@pytest.mark.parametrize("choice", ["off", "on"])
def test_events_and_records_are_pickled_for_either(choice: str) -> None:
    event = sl.Event("order.created", {"n": 1}, key="é", headers={"a": "1"}, occurred_at=MOMENT)
    record = Record("orders", Partition(1), Offset(5), 17, "é", None, event)
    code = (
        "import pickle\n"
        f"record = pickle.loads({pickle.dumps(record)!r})\n"
        "print(pickle.dumps(record).hex(), repr(record))"
    )

    pickled, shown = said_by(code, STRANDLINE_CORE=choice).split(" ", 1)

    assert pickle.loads(bytes.fromhex(pickled)) == record
    assert shown == repr(record)


def test_events_are_matched_by_position() -> None:
    match sl.Event("k", 1):
        case sl.Event("k", payload):
            assert payload == 1
        case _:
            pytest.fail("it has a kind and a payload")


@pytest.mark.parametrize("name", ["kind", "payload", "key", "headers", "new"])
def test_an_event_cannot_be_changed(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(sl.Event("k"), name, 1)


def test_wrong_arguments_of_an_event_are_a_type_error() -> None:
    for arguments, named in [
        ((), {}),
        (("k", 1, 2), {}),
        (("k",), {"kind": "k"}),
        (("k",), {"n": 1}),
    ]:
        with pytest.raises(TypeError):
            sl.Event(*arguments, **named)  # type: ignore[arg-type]
