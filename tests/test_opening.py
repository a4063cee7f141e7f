"""Which log a URL means."""

from pathlib import Path
from typing import Any

import pytest

import strandline
from strandline.stores.files import FileStore
from strandline.stores.sqlite import SqliteStore
from strandline.testing import FakeClock
from strandline.values import ClosedError, Durability, Event, InvalidError
from tests.logs import memory_log


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRANDLINE_URL", raising=False)
    monkeypatch.delenv("STRANDLINE_STATE_DIR", raising=False)
    monkeypatch.delenv("STRANDLINE_QUEUE_DEPTH", raising=False)


@pytest.fixture(autouse=True)
def _nothing_active() -> None:
    strandline.reset()


def test_memory_is_a_new_log_each_time() -> None:
    with strandline.open("memory:") as log, strandline.open("memory:") as other:
        log.create_topic("orders")

        assert isinstance(log, strandline.Log)
        assert log.id != other.id
        assert not other.topics()


def test_options_reach_the_log() -> None:
    clock = FakeClock(now_us=5)

    with strandline.open("memory:", clock=clock, auto_create=True, record_bytes_max=10) as log:
        receipt = log.append("orders", Event("a", 1))

        assert receipt.timestamp_us == 5
        with pytest.raises(InvalidError):
            log.append("orders", Event("a", "x" * 10))


def test_a_file_log_is_the_one_in_its_directory(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'new' / 'events'}"
    with strandline.open(url, auto_create=True) as log:
        log.append("orders", Event("a", 1), durability=Durability.DURABLE)

    with strandline.open(url, mode="read") as log:
        assert [record.payload for record in log.read("orders", 0, 0)] == [1]
    with pytest.raises(InvalidError, match="path is missing"):
        strandline.open("file:")


def test_options_of_file_logs_are_refused_elsewhere() -> None:
    with pytest.raises(InvalidError, match="no such options"):
        strandline.open("memory:", exclusive=True)
    with pytest.raises(InvalidError, match="no such options"):
        strandline.open("memory:", compression="zstd")


def test_a_sqlite_log_is_the_one_in_its_database(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'events.db'}"
    with strandline.open(url, auto_create=True) as log:
        log.append("orders", Event("a", 1), durability=Durability.DURABLE)

    with strandline.open(url, mode="read") as log:
        assert [record.payload for record in log.read("orders", 0, 0)] == [1]
        with pytest.raises(InvalidError):
            log.append("orders", Event("a", 2))


def test_a_sqlite_log_needs_a_path_and_reading_needs_a_log(tmp_path: Path) -> None:
    with pytest.raises(InvalidError):
        strandline.open("sqlite:")
    with pytest.raises(InvalidError):
        strandline.open(f"sqlite:{tmp_path / 'missing.db'}", mode="read")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "url",
    ["", "memory", "Memory:", " memory:", "memory: ", "memory:name", "redis:", "postgres:x", 7],
)
def test_an_unknown_kind_is_refused(url: str) -> None:
    """WE15: a bad value is an error, never a default."""
    with pytest.raises(InvalidError):
        strandline.open(url)


@pytest.mark.parametrize("mode", ["read", "consume", "w", "", "WRITE", None])
def test_a_memory_log_is_opened_for_writing_only(mode: Any) -> None:
    with pytest.raises(InvalidError):
        strandline.open("memory:", mode=mode)


@pytest.mark.parametrize("most", [-1, 1.5, "1", True])
def test_a_bad_maximum_is_refused(most: int) -> None:
    with pytest.raises(InvalidError):
        strandline.open("memory:", record_bytes_max=most)


def test_the_environment_names_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRANDLINE_URL", "memory:")

    with strandline.open() as log:
        assert log.describe().backend == "memory"


@pytest.mark.parametrize("url", ["", "  ", "memory", "redis:"])
def test_a_bad_url_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """WE15."""
    monkeypatch.setenv("STRANDLINE_URL", url)

    with pytest.raises(InvalidError):
        strandline.open()


def test_without_any_url_it_is_a_file_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with strandline.open() as unset:
        assert unset.describe().location == f"file:{tmp_path / '.strandline' / 'events'}"
    monkeypatch.setenv("STRANDLINE_STATE_DIR", "state")
    with strandline.open() as moved:
        assert moved.describe().location == f"file:{tmp_path / 'state' / 'events'}"
    monkeypatch.setenv("STRANDLINE_STATE_DIR", "")
    with pytest.raises(InvalidError, match="STRANDLINE_STATE_DIR"):
        strandline.open()


def test_a_log_of_the_callers_is_installed_and_stays_open() -> None:
    with strandline.open("memory:") as log:
        installed = strandline.install(log)

        assert installed is log
        assert strandline.active() is log
        strandline.reset()
        assert not log.topics()


def test_a_log_installed_by_url_is_closed_when_it_leaves() -> None:
    first = strandline.install("memory:")
    second = strandline.install("memory:")

    with pytest.raises(ClosedError):
        first.topics()
    assert strandline.active() is second
    strandline.reset()
    with pytest.raises(ClosedError):
        second.topics()


def test_installing_the_active_log_again_keeps_it_open() -> None:
    log = strandline.install("memory:")

    strandline.install(log)

    assert not log.topics()
    log.close()


def test_a_failed_install_leaves_the_present_log() -> None:
    log = strandline.install("memory:")

    with pytest.raises(InvalidError):
        strandline.install("redis:")

    assert strandline.active() is log
    assert not log.topics()


def test_the_first_use_installs_what_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STRANDLINE_URL", "redis:")
    with pytest.raises(InvalidError):
        strandline.active()
    monkeypatch.setenv("STRANDLINE_URL", "memory:")

    log = strandline.active()

    assert strandline.active() is log


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_the_first_use_creates_no_log_on_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheme: str
) -> None:
    """E18."""
    monkeypatch.setenv("STRANDLINE_URL", f"{scheme}:{tmp_path / 'log'}")

    with pytest.raises(InvalidError, match=r"install\(\) creates it"):
        strandline.active()
    before = list(tmp_path.iterdir())
    created = strandline.install()
    strandline.reset()
    opened = strandline.active()

    assert before == []
    assert opened.id == created.id
    strandline.reset()


def test_whether_a_log_is_installed_can_be_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """E18."""
    monkeypatch.chdir(tmp_path)
    before = strandline.installed()

    log = strandline.install("memory:")

    assert before is None
    assert strandline.installed() is log
    strandline.reset()
    assert strandline.installed() is None
    assert not list(tmp_path.iterdir())


# --- what an opened log adds to its backend ---


@pytest.fixture(params=["memory", "file", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"


def test_an_opened_log_subscribes_and_consumes(url: str) -> None:
    with strandline.open(url, auto_create=True) as log:
        log.append("orders", Event("a", 1))
        log.append("orders", Event("a", 2))

        with log.subscribe("orders", start=1) as orders:
            assert next(orders).payload == 2
        with log.subscribe("orders", markers=True) as orders:
            assert [type(next(orders)).__name__ for _ in range(3)][-1] == "CaughtUp"
        with log.consumer("orders", "billing") as billing:
            delivery = next(billing)
            assert billing.ack(delivery.record) == 1
        with log.subscribe("orders", consumer="billing") as orders:
            assert next(orders).payload == 2


def test_a_backend_by_itself_is_subscribed_to_by_the_function() -> None:
    with memory_log(auto_create=True) as log:
        log.append("orders", Event("a", 1))

        assert next(strandline.subscribe(log, "orders")).payload == 1
        assert next(strandline.Consumer(log, "orders", "billing")).record.payload == 1


def test_the_environment_says_how_far_to_read_ahead(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    with strandline.open(url, auto_create=True) as log:
        log.append("orders", Event("a", 0))
        monkeypatch.setenv("STRANDLINE_QUEUE_DEPTH", "3")
        following = log.subscribe("orders", markers=True)
        assert [type(following.next()).__name__ for _ in range(2)] == ["Record", "CaughtUp"]

        for number in range(3):
            log.append("orders", Event("a", number))
        at_three = [type(following.next(0)).__name__ for _ in range(3)]
        for number in range(4):
            log.append("orders", Event("a", number))
        at_four = type(following.next(0)).__name__

        assert at_three == ["Record"] * 3
        assert at_four == "FellBehind"


def test_one_log_says_how_far_its_subscriptions_read_ahead(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """E3, E8."""
    monkeypatch.setenv("STRANDLINE_QUEUE_DEPTH", "7")

    with strandline.open(url, auto_create=True, queue_depth=1) as log:
        log.append("orders", Event("a", 0))
        following = log.subscribe("orders", markers=True)
        first = [type(following.next()).__name__ for _ in range(2)]
        for number in range(2):
            log.append("orders", Event("a", number))

        assert first == ["Record", "CaughtUp"]
        assert type(following.next(0)).__name__ == "FellBehind"
        assert log.describe().queue_depth == 1
    with strandline.open(url) as log:
        assert log.describe().queue_depth == 7
    for bad in (0, -1, True, 1.5, "3"):
        with pytest.raises(InvalidError, match="queue_depth"):
            strandline.open(url, queue_depth=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", ["", " ", "0", "-1", "1.5", "many", "1_000", " 7", "٣", "9" * 30])
def test_a_bad_queue_depth_is_refused(
    monkeypatch: pytest.MonkeyPatch, url: str, depth: str
) -> None:
    """WE15: it names the variable and what is allowed, and is not replaced by 128."""
    monkeypatch.setenv("STRANDLINE_QUEUE_DEPTH", depth)

    with strandline.open(url, auto_create=True) as log:
        log.append("orders", Event("a", 1))

        with pytest.raises(InvalidError, match="STRANDLINE_QUEUE_DEPTH is a whole number from 1"):
            log.subscribe("orders")
        with pytest.raises(InvalidError, match="STRANDLINE_QUEUE_DEPTH"):
            log.consumer("orders", "billing")
        assert next(log.subscribe("orders", read_ahead=1)).payload == 1


# --- describing ---


def test_the_environment_names_the_log_to_describe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = f"sqlite:{tmp_path / 'events.db'}"
    strandline.open(url).close()
    monkeypatch.setenv("STRANDLINE_URL", url)

    assert strandline.describe() == strandline.describe(url)
    assert strandline.describe().mode == "read"


@pytest.mark.parametrize("url", ["memory:", "redis:", "", "sqlite:", "sqlite:missing.db"])
def test_only_a_log_that_is_stored_is_described(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidError):
        strandline.describe(url)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lock_timeout_s", [0, -1.0, float("inf"), float("nan")])
def test_a_time_to_wait_for_locks_that_is_none_is_refused_before_anything_is_made(
    tmp_path: Path, lock_timeout_s: float
) -> None:
    for opened in (FileStore, SqliteStore):
        path = tmp_path / opened.__name__

        with pytest.raises(InvalidError, match="lock_timeout_s"):
            opened(str(path), lock_timeout_s=lock_timeout_s)

        assert not path.exists()
