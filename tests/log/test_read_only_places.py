"""What a call that writes raises where the file system may only be read."""

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCRIPT = """
import sys
import strandline as sl

url, skipped = sys.argv[1:]
with sl.open(url, mode="read") as log:
    assert [each.offset for each in log.read("orders", 0, 0)] == [0]
calls = {
    "ack": lambda: sl.open(url, mode="consume").ack("orders", "mailer", 0, 1),
    "consumer": lambda: sl.open(url, mode="consume").consumer("orders", "mailer"),
    "sync": lambda: sl.open(url).sync("orders", 0),
    "append": lambda: sl.open(url).append("orders", sl.Event("made")),
    "create": lambda: sl.open(url).create_topic("other"),
    "new": lambda: sl.open(url + "new"),
}
for name in calls.keys() - {skipped}:
    try:
        calls[name]()
    except sl.UnavailableError as error:
        assert error.fields["reason"] == "Read-only file system", (name, error)
        assert name != "append" or "in time" not in str(error), error
    else:
        raise AssertionError(f"{name} raised nothing")
"""


def read_only(place: Path, command: list[str]) -> list[str]:
    """Return the command that runs this one where `place` may only be read, for any user."""
    path = shlex.quote(str(place))
    script = (
        f"mount --bind {path} {path} && mount -o remount,bind,ro {path}"
        f" && exec {shlex.join(command)}"
    )
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    found = tmp_path / "place"
    found.mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here, to mount a directory")
    tried = subprocess.run(read_only(found, ["true"]), capture_output=True, check=False, timeout=60)
    if tried.returncode:
        pytest.skip(f"this user may mount nothing: {tried.stderr.decode().strip()}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "end", "skipped"),
    [
        ("file:{}/log", "log.close()", ""),
        ("file:{}/log", "os._exit(0)", ""),
        ("sqlite:{}/log.db", "log.close()", ""),
        # A write-ahead log that is there is synced without a write.
        ("sqlite:{}/log.db", "os._exit(0)", "sync"),
    ],
)
def test_a_call_that_writes_raises_that_the_file_system_may_only_be_read(
    place: Path, url: str, end: str, skipped: str
) -> None:
    url = url.format(place)
    fill = (
        f"import os, strandline as sl; log = sl.open({url!r}); log.create_topic('orders');"
        f"log.append('orders', sl.Event('made')); log.register('orders', 'mailer', {{0: 0}}); {end}"
    )
    subprocess.run([sys.executable, "-c", fill], check=True, timeout=60)
    command = [sys.executable, "-c", SCRIPT, url, skipped]

    ran = subprocess.run(
        read_only(place, command), capture_output=True, check=False, text=True, timeout=60
    )

    assert ran.returncode == 0, ran.stderr


FILE_SCRIPT = """
import subprocess
import sys
import strandline as sl

url, path = sys.argv[1:]
event = sl.Event("made")
with sl.open(url) as log:
    calls = {
        "ack": lambda: log.ack("orders", "mailer", 0, 1),
        "append": lambda: log.append("orders", event),
        "durable": lambda: log.append("orders", event, durability="durable"),
        "many": lambda: log.append_many("orders", [event, event]),
        "create": lambda: log.create_topic("other"),
    }
    for name in calls:
        try:
            calls[name]()
        except sl.UnavailableError as error:
            assert "readonly" in str(error), (name, error)
        else:
            raise AssertionError(f"{name} raised nothing")
    assert log.marks("orders", 0).high == 1
    subprocess.run(["mount", "-o", "remount,bind,rw", path], check=True)
    for name in calls:
        calls[name]()
    assert log.marks("orders", 0).high == 5
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["log.close()", "os._exit(0)"])
def test_a_database_that_may_only_be_read_takes_nothing_until_it_may_be_written(
    place: Path, end: str
) -> None:
    path = place / "log.db"
    fill = (
        f"import os, strandline as sl; log = sl.open('sqlite:{path}'); log.create_topic('orders');"
        f"log.append('orders', sl.Event('made')); log.register('orders', 'mailer', {{0: 0}}); {end}"
    )
    subprocess.run([sys.executable, "-c", fill], check=True, timeout=60)
    command = [sys.executable, "-c", FILE_SCRIPT, f"sqlite:{path}", str(path)]

    ran = subprocess.run(
        read_only(path, command), capture_output=True, check=False, text=True, timeout=60
    )

    assert ran.returncode == 0, ran.stderr


FOLDER_SCRIPT = """
import os
import sys
import strandline as sl

folder, = sys.argv[1:]
path = os.path.join(folder, "log.db")
with sl.open(f"sqlite:{path}") as log:
    log.create_topic("orders")
    log.append("orders", sl.Event("made"))
for name in os.listdir(folder):
    os.chmod(os.path.join(folder, name), 0o666)
os.chmod(folder, 0o555)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
assert os.access(path, os.W_OK)
try:
    with sl.open(f"sqlite:{path}") as log:
        log.append("orders", sl.Event("made"))
except sl.UnavailableError as error:
    assert error.fields["path"] == folder, error
else:
    raise AssertionError("nothing was raised")
"""


@pytest.mark.slow
def test_a_database_in_a_folder_that_takes_no_files_raises_the_folder() -> None:
    """SQLite needs files beside the database, and calls the database read-only without them."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        command = [sys.executable, "-c", FOLDER_SCRIPT, folder]
        ran = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
        Path(folder).chmod(0o700)

    assert ran.returncode == 0, ran.stderr
