"""The program as a process: its streams, its signals, its exit codes."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import strandline as sl
from strandline.cli.exit_codes import MEANINGS, ExitCode, code_of
from strandline.values import NotReadyError, RejectedError
from tests.cli.program import PROGRAM, environment, process, run

URL = "file:.strandline/events"


@pytest.fixture
def many(orders: str) -> str:
    """Make a topic whose records do not fit into a pipe."""
    with sl.open(URL) as log:
        log.append_many(orders, [sl.Event("many", "x" * 100)] * 5000)
    return orders


def test_help_needs_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['strandline', '--help']\n"
        "from strandline.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert "Commands:" in done.stdout
    heavy = {"pyarrow", "sqlite3", "rich", "pyspark", "strandline.opening", "strandline.writes"}
    assert not heavy & set(done.stderr.split())


@pytest.mark.slow
def test_the_version_is_shown() -> None:
    done = process("--version")

    assert done.stdout.startswith("strandline ")
    assert done.returncode == 0


@pytest.mark.slow
def test_the_version_is_shown_without_loading_any_command() -> None:
    code = (
        "import sys; sys.argv = ['strandline', '--version']\n"
        "import strandline.cli; strandline.cli.main()\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.startswith("strandline ")
    assert not {"typer", "msgspec", "strandline.values"} & set(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        (">/dev/full", 4, "standard output cannot be written"),
        (">&-", 4, "standard output cannot be written"),
        ("| true", 141, ""),
    ],
)
def test_a_version_that_cannot_be_shown_is_an_exit_code(output: str, code: int, said: str) -> None:
    words = f"strandline --version {output}; echo ${{PIPESTATUS[0]}} >&2"
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-c", words],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )

    *lines, status = done.stderr.splitlines()
    assert int(status) == code
    assert said in "".join(lines)
    assert len(lines) == bool(said)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_reader_that_goes_away_ends_it_quietly(many: str, more: tuple[str, ...]) -> None:
    words = " ".join(("strandline", "read", many, *more))
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-c", f"{words} | head -n 1; echo ${{PIPESTATUS[0]}}"],
        check=True,
        capture_output=True,
        text=True,
        env=environment(),
    )

    first, code = done.stdout.splitlines()
    assert "order.created" in first
    assert int(code) == ExitCode.BROKEN_PIPE
    assert not done.stderr


@pytest.fixture
def following(orders: str) -> Iterator["subprocess.Popen[str]"]:
    follower = subprocess.Popen(
        [PROGRAM, "tail", orders, "-n", "1", "--follow", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    yield follower
    follower.kill()
    follower.communicate()


@pytest.mark.slow
def test_a_follower_shows_each_record_as_it_comes_and_ends_with_ctrl_c(
    following: "subprocess.Popen[str]", orders: str
) -> None:
    assert following.stdout is not None
    assert following.stderr is not None
    assert msgspec.json.decode(following.stdout.readline())["offset"] == 4

    with sl.open(URL) as log:
        log.append(orders, sl.Event("order.shipped", {"id": 1}))
        assert msgspec.json.decode(following.stdout.readline())["kind"] == "order.shipped"
        log.append(orders, sl.Event("order.shipped", {"id": 2}))
        assert msgspec.json.decode(following.stdout.readline())["payload"] == {"id": 2}

    following.send_signal(signal.SIGINT)
    assert following.wait() == ExitCode.INTERRUPTED
    assert following.stderr.read() == ""


@pytest.mark.slow
def test_an_error_is_written_to_standard_error_as_text_or_as_json(orders: str) -> None:
    plain, told = process("read", "order"), process("read", "order", "--json")

    assert plain.returncode == told.returncode == ExitCode.USAGE
    assert plain.stdout == told.stdout == ""
    assert plain.stderr.startswith("strandline: InvalidError: there is no such topic")
    error = msgspec.json.decode(told.stderr)["error"]
    assert (error["class"], error["exit_code"]) == ("InvalidError", 2)
    assert error["fields"]["near"] == "['orders']"


@pytest.mark.slow
@pytest.mark.parametrize("redirected", ["> /dev/full", ">&-"])
@pytest.mark.parametrize("words", ["read orders", "export orders -", "topics --json", "topics"])
def test_an_output_that_cannot_be_written_is_reported(
    words: str, redirected: str, many: str
) -> None:
    assert many == "orders"
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-c", f"strandline {words} {redirected}"],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )

    assert done.returncode == ExitCode.UNAVAILABLE
    assert done.stderr.startswith("strandline: standard output cannot be written: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("topics", ExitCode.OK),
        ("verify", ExitCode.OK),
        ("read nowhere", ExitCode.USAGE),
        ("read nowhere --json", ExitCode.USAGE),
        ("topics >&-", ExitCode.UNAVAILABLE),
        ("--version >&-", ExitCode.UNAVAILABLE),
    ],
)
def test_a_closed_standard_error_changes_no_exit_code(words: str, code: int, many: str) -> None:
    assert many == "orders"
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-c", f"strandline {words} 2>&-"],
        check=False,
        capture_output=True,
        env=environment(),
    )

    assert done.returncode == code


@pytest.mark.slow
def test_a_closed_standard_input_is_reported(many: str) -> None:
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-c", f"strandline append {many} --kind k --from - <&-"],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )

    assert done.returncode == ExitCode.USAGE
    assert "standard input is closed" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_ctrl_c_before_anything_has_begun_is_quiet() -> None:
    code = (
        "import sys\n"
        "class Slow:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Slow())\n"
        "from strandline.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("read", "orders", "--from", "yesterday"), "'yesterday' is not a place to start"),
        (
            ("append", "orders", "1", "--kind", "k", "--occurred-at", "15m"),
            "'15m' is not a time: use one such as",
        ),
        (("read",), "Missing argument 'TOPIC'."),
        (("reed",), "No such command 'reed'"),
        (("read", "orders", "--limit", "many"), "--limit"),
        (("dead-letters", "redrive"), "TOPIC"),
    ],
)
def test_a_call_that_is_not_understood_is_reported_in_json_too(
    arguments: tuple[str, ...], told: str, orders: str
) -> None:
    done = run(*arguments, "--json")

    error = msgspec.json.decode(done.stderr)["error"]
    assert told in error["message"]
    assert (done.code, error["exit_code"], error["class"]) == (2, 2, "UsageError")
    assert not done.stdout


def on_terminal(*arguments: str, typed: bytes = b"", **more: str) -> str:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [PROGRAM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**more)
    )
    os.close(theirs)
    os.write(ours, typed)
    shown = b""
    # Reading from a terminal that no process has open any more is an error on Linux.
    try:
        while data := os.read(ours, 4096):
            shown += data
    except OSError:
        pass
    os.close(ours)
    assert child.wait() == 0
    return shown.decode()


@pytest.mark.slow
def test_records_typed_at_a_terminal_get_a_prompt_and_no_bars(orders: str) -> None:
    shown = on_terminal("append", orders, typed=b'{"kind": "typed"}\n\x04', TERM="xterm")

    assert "Ctrl-D" in shown
    assert "\x1b[" not in shown
    assert "orders: 1 appended" in shown


@pytest.mark.slow
def test_colour_and_progress_are_for_terminals_alone(orders: str, folder: Path) -> None:
    assert "\x1b[1m" in on_terminal("topics", TERM="xterm")
    assert "\x1b[" not in on_terminal("topics", NO_COLOR="1", TERM="xterm")
    assert "\x1b[" in on_terminal("export", orders, "a.jsonl", TERM="xterm")
    away = process("export", orders, "b.jsonl")
    assert (away.stderr, "\x1b" in away.stdout) == ("", False)


def test_every_error_has_a_code_of_its_own_that_the_page_names() -> None:
    cause = OSError("gone")
    errors: dict[sl.StrandlineError, ExitCode] = {
        sl.InvalidError("x"): ExitCode.USAGE,
        RejectedError(1, cause): ExitCode.USAGE,
        sl.ConflictError("x"): ExitCode.CONFLICT,
        sl.UnavailableError("x"): ExitCode.UNAVAILABLE,
        NotReadyError(0): ExitCode.UNAVAILABLE,
        sl.TrimmedError(3): ExitCode.TRIMMED,
        sl.DivergedError(3): ExitCode.DIVERGED,
        sl.ClosedError("x"): ExitCode.CLOSED,
        sl.FailedError(cause): ExitCode.FAILED,
        sl.UnknownError(cause): ExitCode.UNKNOWN,
        sl.CorruptError("x", file=None, position=None): ExitCode.CORRUPT,
    }

    assert {error: code_of(error) for error in errors} == errors
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.slow
def test_a_lock_that_another_holds_is_a_matter_of_time(orders: str) -> None:
    with sl.open(URL, exclusive=True) as log:
        log.append(orders, sl.Event("mine"))

        done = run("append", orders, "1", "--kind", "a", "--timeout", "0.05")

        assert done.code == ExitCode.UNAVAILABLE
    assert run("append", orders, "1", "--kind", "a", "--timeout", "5").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("strandline cons", ["consumers", "console"]),
        ("strandline dead-letters re", ["redrive"]),
        ("strandline read ", ["orders", "returns"]),
        ("strandline read or", ["orders"]),
        ("strandline read --url file:nowhere or", []),
        ("strandline read --url=file:nowhere or", []),
        ("strandline create new --kind b", ["bytes", "batch"]),
    ],
)
def test_completion_is_offered_for_the_shell(words: str, offered: list[str], orders: str) -> None:
    with sl.open(URL) as log:
        log.create_topic("returns")

    done = subprocess.run(
        [PROGRAM],
        check=False,
        capture_output=True,
        text=True,
        env=environment(
            _STRANDLINE_COMPLETE="complete_bash",
            COMP_WORDS=words,
            COMP_CWORD=str(words.count(" ")),
        ),
    )

    assert (done.stdout.split(), done.stderr) == (offered, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("sys.modules['strandline._core.core'] = None", ": install a C compiler, then Strandline"),
        ("os.environ['STRANDLINE_CORE'] = 'off'", "several times slower"),
    ],
)
def test_doctor_says_how_to_get_the_compiled_core_where_it_was_not_built(
    code: str, advice: str
) -> None:
    code = f"import os, sys; {code}; from strandline.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor"], capture_output=True, text=True, check=False
    )

    (line,) = [line for line in done.stdout.splitlines() if line.startswith("core: ")]
    assert advice in line
    assert ("compiler" in line) == ("compiler" in advice)


def test_without_its_libraries_it_names_the_extra() -> None:
    code = "import sys; sys.modules['typer'] = None\nfrom strandline.cli import main\nmain()\n"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert done.returncode == ExitCode.USAGE
    assert done.stderr == (
        "strandline: the command line needs: pip install 'path/to/strandline[cli]'\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("consumers", "orders"),
        pytest.param(("pipeline", "audit", "orders"), marks=pytest.mark.slow),
    ],
)
def test_a_log_that_is_missing_is_named_with_how_to_name_another(words: tuple[str, ...]) -> None:
    if words[0] == "pipeline":
        pytest.importorskip("pyspark", reason="Spark is not installed")
    done = run(*words)

    assert done.code == ExitCode.USAGE
    assert "choose another with --url or STRANDLINE_URL" in done.stderr
    assert "url='file:.strandline/events'" in done.stderr

    elsewhere = run(*words, "--url", "file:./elsewhere", "--json")
    assert msgspec.json.decode(elsewhere.stderr)["error"]["fields"]["url"] == "file:./elsewhere"


@pytest.mark.parametrize("typed", [["--url", "{}"], ["--url={}"], ["{}"]])
def test_a_url_that_is_an_argument_is_taken_as_an_option_too(typed: list[str]) -> None:
    place = "https://log.example"
    shown = run("console", *(each.format(place) for each in typed), "--no-browser", "--json")
    assert shown.document == {"link": f"{place}/console/"}

    looked = run("doctor", *(each.format("memory:") for each in typed))
    assert "such a log has no server: url='memory:'" in looked.stderr
    assert "--path" in run("doctor", "file:x").stderr

    assert "No such option: --url" in run("doctor", "--url").stderr
