"""Opens a log, and makes a new one, on a disk that others have filled. Run on a small mount.

One that is there is acked and trimmed, and not appended to.
"""

import contextlib
import sys
from pathlib import Path

import strandline as sl


def fill(place: Path) -> None:
    with contextlib.suppress(OSError), place.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def refused(url: str) -> sl.FullError:
    try:
        with sl.open(url, retention=False) as log:
            log.append("orders", sl.Event("order", {"text": "x" * 300_000}))
    except sl.FullError as error:
        return error
    raise AssertionError(url)


def main(url: str, rest: Path) -> None:
    with sl.open(url, retention=False) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("order", {"id": 0}))
        log.append("orders", sl.Event("order", {"id": 1}))
    fill(rest)

    for _ in range(2):
        assert "make room" in str(refused(url))
    assert "make room" in str(refused(f"{url}.new"))
    with contextlib.suppress(sl.FullError), sl.open(url, mode="read") as log:
        assert log.marks("orders", 0).high == 2

    with sl.open(url, mode="consume") as log:
        assert log.ack("orders", "mailer", 0, 1) == 1
    with sl.open(url, mode="consume") as log, log.consumer("orders", "mailer") as mailer:
        assert mailer.ack(mailer.fetch(timeout_s=30)) == {0: 2}
    with sl.open(url, retention=False) as log:
        assert log.trim("orders", 0, 1).low == 1

    rest.unlink()
    with sl.open(url, retention=False) as log:
        assert log.append("orders", sl.Event("order", {"id": 2})).offset == 2
    with sl.open(f"{url}.new", retention=False) as log:
        log.create_topic("orders")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
