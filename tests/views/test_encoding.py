"""Wrong results of a view's encode and decode, and their effect on the view."""

from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log
from tests.views.accounts import Accounts, State, moved, opened, running, state_of


def test_encode_that_fails_is_reported_and_keeps_the_view_going(log: Log, path: Path) -> None:
    class Shy(Accounts):
        is_shy = True

        def encode(self, state: State) -> bytes:
            if self.is_shy:
                raise TypeError("not this")
            return super().encode(state)

    accounts = Shy()
    with running(log, 0, view=accounts, snapshot=path) as view:
        view.publish(opened("ann", 5), partition=0)
        with pytest.raises(sl.UnavailableError):
            view.save()
        assert isinstance(view.health().snapshot_fault, TypeError)
        assert state_of(view) == {"ann": 5}

        accounts.is_shy = False
        view.save()
        assert view.committed(0) == 0


def test_encode_that_returns_text_is_an_invalid_error_that_says_so(log: Log, path: Path) -> None:
    class Textual(Accounts):
        def encode(self, state: State) -> bytes:
            return super().encode(state).decode()  # type: ignore[return-value]

    with running(log, 0, view=Textual(), snapshot=path) as view:
        view.publish(opened("ann", 5), partition=0)

        with pytest.raises(sl.InvalidError, match=r"encode must return bytes.*type='str'"):
            view.save()

        assert state_of(view) == {"ann": 5}


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("name", ["encode", "decode"])
def test_a_view_whose_encode_or_decode_exits_continues(
    name: str, error: BaseException, log: Log, path: Path
) -> None:
    with running(log, 0, snapshot=path) as view:
        view.publish(opened("ann", 5), partition=0)
        view.save()

    def exits(*_: object) -> bytes:
        raise error

    accounts = Accounts()
    setattr(accounts, name, exits)
    with running(log, 0, view=accounts, snapshot=path) as view:
        view.publish(moved("ann", 1), partition=0)
        if name == "encode":
            with pytest.raises(sl.UnavailableError, match=f"reason='{type(error).__name__}"):
                view.save()
        assert state_of(view) == {"ann": 6}
