"""A Python from the server is to Spark as one that it starts itself."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark_pythons import forked_pythons

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with forked_pythons(str(tmp_path_factory.mktemp("pythons"))):
        yield os.environ["PYSPARK_PYTHON"]


def started(python: str) -> "subprocess.Popen[bytes]":
    """Start what serves the tasks of an executor, and wait until it does."""
    process = subprocess.Popen(
        [python, "-m", "pyspark.daemon", "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    port = int.from_bytes(process.stdout.read(4), "big")
    socket.create_connection(("127.0.0.1", port)).close()
    return process


def test_it_serves_until_its_input_ends_and_ends_in_the_same_way(program: str) -> None:
    codes = []
    for python in (program, sys.executable):
        with started(python) as process:
            assert process.stdin is not None
            process.stdin.close()
            codes.append(process.wait())

    assert codes[0] == codes[1]


def test_it_ends_with_the_process_that_spark_has_started(program: str) -> None:
    with started(program) as process:
        process.kill()

        assert process.stdout is not None
        assert process.stdout.read() == b"", "no process holds its output any more"


def test_it_forks_on_when_a_program_was_killed_while_it_asked(program: str) -> None:
    for sent in (b"", (1000).to_bytes(4, "big"), (1000).to_bytes(4, "big") + b"{"):
        with socket.socket(socket.AF_UNIX) as asker, contextlib.chdir(Path(program).parent):
            asker.connect("pythons")
            if sent:
                socket.send_fds(asker, [sent], [0, 1, 2])

    with started(program) as process:
        assert process.stdin is not None
        process.stdin.close()


def test_what_is_no_work_of_spark_runs_plainly(program: str) -> None:
    done = subprocess.run(
        [program, "-c", "import sys; print(sys.argv)", "a b"], capture_output=True, check=True
    )

    assert done.stdout == b"['-c', 'a b']\n"
