"""Logs behind symbolic links, and in directories that may only be read."""

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

import strandline as sl
from strandline.stores.files import store as file_store
from strandline.stores.files.copying import copy_file_log
from strandline.stores.sqlite.copying import copy_sqlite_log
from strandline.subscriptions import MachineBroker

STORES = ("file", "sqlite")
EVENT = sl.Event("sale", {"n": 1})
UNPRIVILEGED = 65534


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    return tmp_path / "link"


def used(url: str) -> None:
    with sl.open(url) as log:
        log.create_topic("t")
        log.append("t", EVENT, durability=sl.Durability.DURABLE)
        log.ack("t", "billing", 0, 1)
    with sl.open(url, mode="read") as log:
        assert [record.payload for record in log.read("t", 0, 0)] == [{"n": 1}]


@pytest.mark.parametrize(
    ("store", "below"), [("file", "log"), ("file", "new/log"), ("sqlite", "log")]
)
def test_a_parent_may_be_a_symbolic_link(store: str, below: str, linked: Path) -> None:
    used(f"{store}:{linked / below}")

    assert (linked.parent / "real" / below).exists()


def test_a_symbolic_link_to_a_log_opens_it(linked: Path) -> None:
    real = linked.parent / "real"
    used(f"file:{real / 'log'}")
    (linked / "other").symlink_to(real / "log")

    with sl.open(f"file:{linked / 'other'}") as log:
        assert log.topics()
        assert log.describe().location == f"file:{real / 'log'}"


@pytest.mark.parametrize("store", STORES)
def test_a_symbolic_link_inside_a_log_is_refused(store: str, tmp_path: Path) -> None:
    used(f"{store}:{tmp_path / 'log'}")
    (inside,) = [tmp_path / "log"] if store == "sqlite" else (tmp_path / "log").glob("strandline")
    inside.rename(tmp_path / "elsewhere")
    inside.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(sl.StrandlineError, match="symbolic link"):
        sl.open(f"{store}:{tmp_path / 'log'}")


@pytest.mark.slow
def test_copies_snapshots_and_brokers_may_lie_behind_a_symbolic_link(linked: Path) -> None:
    used(f"file:{linked / 'log'}")
    used(f"sqlite:{linked / 'log.db'}")

    copy_file_log(str(linked / "log"), str(linked / "copy"))
    copy_sqlite_log(str(linked / "log.db"), str(linked / "copy.db"))
    broker = MachineBroker(str(linked))
    assert broker.live() == []
    broker.close()

    with (
        sl.open(f"file:{linked / 'copy'}") as log,
        sl.LiveView(log, "t", Count(), snapshot=linked / "snapshot") as view,
    ):
        view.reconcile([0])
        view.wait_applied(0, 0, timeout_s=10)
        view.save()
    assert (linked.parent / "real" / "snapshot").exists()


class Count(sl.View[list[int]]):
    def initial(self, partition: int) -> list[int]:  # noqa: ARG002 # All begin alike.
        return [0]

    def apply(self, state: list[int], record: sl.Record) -> None:  # noqa: ARG002 # Counted.
        state[0] += 1

    def encode(self, state: list[int]) -> bytes:
        return bytes(state)

    def decode(self, stored: bytes) -> list[int]:
        return list(stored)


def test_the_check_sees_a_log_that_refuses_a_linked_parent(linked: Path) -> None:
    with (
        mock.patch.object(file_store, "real_path", os.path.abspath),
        pytest.raises(sl.UnavailableError),
    ):
        used(f"file:{linked / 'log'}")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that any user can reach."""
    # The folders of tests are closed to others.
    folder = Path(tempfile.mkdtemp(prefix="strandline-shared-", dir=os.environ.get("TMPDIR")))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def reader_of(folder: Path, action: Callable[[], None]) -> int:
    """Start a child that may not write to the folder, whichever user runs the tests."""
    folder.chmod(0o555)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.getuid() == 0:
                os.setuid(UNPRIVILEGED)
            action()
            status = 0
        except BaseException:  # noqa: BLE001 # It is shown, and the child ends.
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_a_log_in_a_directory_that_may_only_be_read_is_read(store: str, shared: Path) -> None:
    url = f"{store}:{shared / 'log'}"
    used(url)
    before = sorted(shared.rglob("*"))

    def look() -> None:
        with sl.open(url, mode="read") as log:
            assert [record.payload for record in log.read("t", 0, 0)] == [{"n": 1}]
            assert log.cursor("t", "billing", 0) == 1
            with log.subscribe("t", start=sl.EARLIEST) as stream:
                assert next(stream).payload == {"n": 1}

    child = reader_of(shared, look)

    assert os.waitpid(child, 0)[1] == 0
    assert sorted(shared.rglob("*")) == before


@pytest.mark.slow
def test_what_another_user_writes_meanwhile_is_read_too(shared: Path) -> None:
    path = shared / "log.db"
    used(f"sqlite:{path}")
    (wanted, go), (ready, tell) = os.pipe(), os.pipe()

    def look() -> None:
        with sl.open(f"sqlite:{path}", mode="read") as log:
            assert log.marks("t", 0).high == 1
            os.write(tell, b".")
            os.read(wanted, 1)
            assert log.marks("t", 0).high == 2

    child = reader_of(shared, look)
    os.read(ready, 1)
    shared.chmod(0o755)
    with sl.open(f"sqlite:{path}") as log:
        log.append("t", EVENT)
    shared.chmod(0o555)
    os.write(go, b".")

    assert os.waitpid(child, 0)[1] == 0
