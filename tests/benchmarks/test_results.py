"""The file results.json."""

import json
from pathlib import Path

from benchmarks.results import Result, Results, load, merged, save
from tools.this_run import Run


def test_the_file_has_the_agreed_form(tmp_path: Path) -> None:
    path = tmp_path / "results.json"

    save(Results(machine={"cores": 2}, versions={"python": "3"}, entries=[result("a.b")]), path)

    assert json.loads(path.read_text()) == {
        "machine": {"cores": 2},
        "versions": {"python": "3"},
        "entries": [
            {
                "name": "a.b",
                "unit": "events/s",
                "ours": 3,
                "beside": {"raw": 2},
                "ratios": {"raw": 1.5},
                "bars": {"raw": 1},
                "holds": True,
                "rounds": 3,
                "spread": {"ours": 0.1, "raw": 0.2},
                "others": 0.05,
                "run": {"day": "2026-11-01", "commit": "abcd1234"},
            }
        ],
    }


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    saved = Results(machine={"cores": 2}, versions={}, entries=[result("a.b")])

    save(saved, path)

    assert load(path) == saved


def test_no_file_is_no_result(tmp_path: Path) -> None:
    assert load(tmp_path / "results.json") is None


def test_merging_takes_the_latest_of_each_name_in_the_order_of_the_names() -> None:
    earlier = [result("gone"), result("c"), result("b"), result("a")]
    later = [result("d"), result("b", ours=9)]

    both = merged(["a", "b", "c", "d", "not measured"], earlier, later)

    assert both == [result("a"), result("b", ours=9), result("c"), result("d")]


def result(name: str, ours: float = 3) -> Result:
    return Result(
        name=name,
        unit="events/s",
        ours=ours,
        beside={"raw": 2},
        ratios={"raw": 1.5},
        bars={"raw": 1},
        holds=True,
        rounds=3,
        spread={"ours": 0.1, "raw": 0.2},
        others=0.05,
        run=Run("2026-11-01", "abcd1234"),
    )
