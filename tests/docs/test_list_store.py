"""The worked example of the port: a store of one's own, as a package would bring it."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import strandline as sl
from strandline.clock import Clock
from strandline.log import (
    DurableStore,
    EvaluatingStore,
    Log,
    MeasuredStore,
    SegmentedStore,
    SelectingStore,
    Store,
    TransactionalStore,
)
from strandline.log.changing_store import ChangingStore
from strandline.log.sources import SourceStore
from strandline.log.store import ErasingStore, MovableStore
from strandline.testing import FakeClock, conformance
from strandline.testing.conformance_checks import OpenLog
from strandline.values import InvalidError, UnavailableError
from tests.conformance.cases import cases, opening
from tests.planting import Bug

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "list_store.py"
PAGE = ROOT / "docs" / "howto" / "build-a-store.md"
LINES_MAX = 150


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


EXAMPLE_MODULE = load(EXAMPLE)


def open_one(*, clock: Clock | None = None, **options: Any) -> Log:
    return Log(EXAMPLE_MODULE.ListStore("test", clock=clock), clock=clock, **options)


@pytest.fixture
def opened() -> Iterator[OpenLog]:
    with opening(open_one) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("rule", cases(conformance.RULES))
def test_the_example_keeps(rule: conformance.Rule, opened: OpenLog) -> None:
    rule(opened)


@pytest.mark.parametrize("rule", conformance.TIMED_RULES, ids=conformance.name_of)
def test_the_example_keeps_in_time(rule: conformance.TimedRule) -> None:
    rule(lambda clock: open_one(clock=clock), FakeClock())


def test_the_suite_finds_what_is_wrong_with_a_store() -> None:
    bug = Bug(
        "the chain begins again after a trim",
        EXAMPLE_MODULE.ListPartition,
        "release",
        "gone[-1].value",
        "self.anchor",
    )
    rule = next(each for each in conformance.RULES if each.__name__ == "trimming_keeps_the_proof")

    with opening(open_one) as opened, bug.planted(), pytest.raises(AssertionError):
        rule(opened)


def test_the_example_is_short_and_the_page_shows_it() -> None:
    source = EXAMPLE.read_text()

    assert len(source.splitlines()) < LINES_MAX
    assert source.strip() in PAGE.read_text()


def test_the_page_names_every_call_of_the_port() -> None:
    protocols = (
        *(Store, DurableStore, EvaluatingStore, MeasuredStore, SegmentedStore),
        *(
            SelectingStore,
            TransactionalStore,
            ErasingStore,
            MovableStore,
            ChangingStore,
            SourceStore,
        ),
    )
    calls = {name for each in protocols for name in dir(each) if not name.startswith("_")}
    table = re.findall(r"^\| (`[a-z_`, ]+`) \|", PAGE.read_text(), re.MULTILINE)

    assert {name for row in table for name in re.findall(r"`([a-z_]+)`", row)} == calls


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a distribution that brings the example's store, and nothing else."""
    (tmp_path / "list_store.py").write_text(EXAMPLE.read_text())
    record = tmp_path / "list_store-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: list-store\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text("[strandline.stores]\nlist = list_store:KIND\n")
    monkeypatch.delitem(sys.modules, "list_store", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_an_installed_store_is_named_where_a_kind_is_not_known(package: Path) -> None:
    with pytest.raises(InvalidError, match=r"use memory:, .*http://.*list:…"):
        sl.open("lisst:orders")


def test_an_installed_store_is_opened_by_its_url_with_its_options(package: Path) -> None:
    with sl.open("list:orders", records_max=2) as log:
        log.create_topic("orders")
        log.append_many("orders", [sl.Event("a"), sl.Event("b")])

        with pytest.raises(UnavailableError, match="full"):
            log.append("orders", sl.Event("c"))

        assert [record.offset for record in log.read("orders", 0, 0)] == [0, 1]
        assert "list:orders" in repr(log)


def test_an_option_that_an_installed_store_does_not_have_is_refused(package: Path) -> None:
    with pytest.raises(InvalidError, match="records_max") as caught:
        sl.open("list:orders", exclusive=True)

    assert caught.value.fields["options"] == ["exclusive"]


def test_an_installed_store_is_opened_in_a_mode(package: Path) -> None:
    with sl.open("list:orders", mode="read") as log, pytest.raises(InvalidError, match="mode"):
        log.create_topic("orders")


@pytest.mark.slow
def test_another_process_finds_the_store_through_its_distribution(package: Path) -> None:
    program = "import strandline as sl; print(sl.open('list:x', records_max=1))"

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.startswith("Log('list:x', mode='write'")


def test_without_the_distribution_the_scheme_is_unknown() -> None:
    with pytest.raises(InvalidError, match=r"scheme=.list."):
        sl.open("list:orders")
