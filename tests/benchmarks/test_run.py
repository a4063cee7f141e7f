"""One run: measure, print, store, judge."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.entry import Entry
from benchmarks.results import Results, load
from benchmarks.run import run


@pytest.mark.slow
def test_a_bar_that_falls_short_is_shown_last_and_is_no_error(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = bench([entry("a.one", ours=3), entry("b.two", ours=1)], {}, results)

    assert code == 0
    shown = capsys.readouterr()
    assert shown.out.endswith("Bars that fall short:\n  b.two: 0.500 times raw, the bar is 1\n")
    assert shown.err == ""


@pytest.mark.slow
def test_strict_bars_make_it_an_error(results: Path) -> None:
    strict = {"STRANDLINE_BENCH_BARS": "strict"}

    assert bench([entry("a.one", ours=1)], strict, results) == 1
    assert bench([entry("a.one", ours=3)], strict, results) == 0


@pytest.mark.slow
def test_bars_that_hold_are_reported_too(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench([entry("a.one", ours=3)], {}, results)

    assert capsys.readouterr().out.endswith("Every measured bar was reached.\n")


@pytest.mark.slow
def test_a_busy_machine_holds_no_bar(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries, strict = [entry("a.one", ours=3)], {"STRANDLINE_BENCH_BARS": "strict"}

    assert bench(entries, strict, results, others=0.5) == 1

    assert "measure again:\n  a.one\n" in capsys.readouterr().out
    assert [result.holds for result in loaded(results).entries] == [None]


@pytest.mark.slow
def test_only_measures_a_part_and_keeps_the_rest(results: Path) -> None:
    bench([entry("a.one", ours=3), entry("b.two", ours=1)], {}, results)

    bench([entry("a.one", ours=9), entry("b.two", ours=9)], only("a."), results)

    assert figures(results) == {"a.one": 9, "b.two": 1}


@pytest.mark.slow
def test_strict_judges_only_what_was_measured(results: Path) -> None:
    entries = [entry("a.one", ours=3), entry("b.two", ours=1)]
    bench(entries, {}, results)

    assert bench(entries, {**only("a."), "STRANDLINE_BENCH_BARS": "strict"}, results) == 0


@pytest.mark.slow
def test_a_whole_run_drops_entries_that_no_longer_exist(results: Path) -> None:
    bench([entry("a.one", ours=3), entry("b.two", ours=1)], {}, results)

    bench([entry("a.one", ours=9)], {}, results)

    assert figures(results) == {"a.one": 9}


@pytest.mark.slow
def test_a_run_keeps_entries_that_cannot_be_measured_here(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench([entry("a.one", ours=3), entry("b.two", ours=1)], {}, results)
    before = loaded(results).entries[1]
    absent = replace(entry("b.two", ours=9), missing="no jars, fetch them")

    bench([entry("a.one", ours=9), absent], {}, results)

    assert figures(results) == {"a.one": 9, "b.two": 1}
    assert loaded(results).entries[1] == before
    assert capsys.readouterr().err == "b.two is left out: no jars, fetch them\n"


@pytest.mark.slow
def test_what_was_measured_before_an_error_is_kept(results: Path) -> None:
    bench([entry("a.one", ours=3), entry("b.two", ours=3)], {}, results)

    with pytest.raises(ZeroDivisionError):
        bench([entry("a.one", ours=9), entry("b.two", ours=0)], {}, results)

    assert figures(results) == {"a.one": 9, "b.two": 3}


@pytest.mark.parametrize(
    "environ", [{"STRANDLINE_BENCH_ONLY": "z"}, {"STRANDLINE_BENCH_BARS": "lenient"}]
)
def test_a_wish_that_means_nothing_is_refused(
    results: Path, capsys: pytest.CaptureFixture[str], environ: dict[str, str]
) -> None:
    assert bench([entry("a.one", ours=3)], environ, results) == 2
    assert "a.one" in capsys.readouterr().err
    assert not results.exists()


@pytest.mark.slow
def test_kept_entries_from_elsewhere_are_pointed_out(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench([entry("a.one", ours=3)], {}, results)
    bench([entry("a.one", ours=3)], only("a"), results)
    assert "another machine" not in capsys.readouterr().out
    results.write_text(results.read_text().replace('"sqlite": "', '"sqlite": "older than '))

    bench([entry("a.one", ours=3)], only("a"), results)

    assert "another machine" in capsys.readouterr().out


@pytest.mark.slow
def test_the_machine_and_the_versions_are_shown(results: Path) -> None:
    bench([entry("a.one", ours=3)], {}, results)

    found = loaded(results)
    assert found.machine.keys() == {"cores", "memory_gib", "kernel", "python", "file_system"}
    assert {"python", "strandline", "pyarrow", "msgspec", "sqlite"} <= found.versions.keys()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results.json"


def bench(entries: list[Entry], environ: dict[str, str], path: Path, others: float = 0.0) -> int:
    return run(entries, environ, path, lambda: others)


def entry(name: str, ours: float) -> Entry:
    return Entry(
        name=name,
        unit="events/s",
        contenders=lambda scratch: {"ours": lambda: ours, "raw": lambda: 2},
        bars={"raw": 1},
    )


def only(prefix: str) -> dict[str, str]:
    return {"STRANDLINE_BENCH_ONLY": prefix}


def loaded(path: Path) -> Results:
    found = load(path)
    assert found is not None
    return found


def figures(path: Path) -> dict[str, float]:
    return {result.name: result.ours for result in loaded(path).entries}
