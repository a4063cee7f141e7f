"""A random sample of all mutants, which grows from run to run: torture/mutants.json."""

import ast
import hashlib
import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, zip_longest

import msgspec
import pytest

from torture.counts import ROOT, this_run
from torture.mutants.changes import Change, changes
from torture.mutants.coverage import Covered
from torture.mutants.outcomes import Outcome, load, save
from torture.mutants.trial import functions_of, mutated, noticed_by

SOURCE = ROOT / "src" / "strandline"
ROOMS = ("writes", "log", "subscriptions")
#: How many mutants are the full count.
FULL = 1_000
#: What the tests of one mutant take together at most, where none fails.
BUDGET_S = 40.0
#: After how many the outcomes are stored.
_PART = 10


class Mutant(msgspec.Struct, frozen=True):
    """A change, and the file below src/strandline that it is made in."""

    file: str
    change: Change

    @property
    def function(self) -> str:
        """Return the name under which a test covers it."""
        return f"{self.file}:{self.change.function}"


class Sample:
    """Mutants in an order that is random and the same in each run."""

    def __init__(self, items: Mapping[str, pytest.Item], covered: Mapping[str, Covered]) -> None:
        self._items = items
        self._covered = covered
        self._functions = functions_of(SOURCE)

    def run(self, stage: str, seconds: float) -> None:
        """Try mutants until all of the stage are tried, or the time is over."""
        global _trying  # noqa: PLW0603 # What forked processes have without being sent it.
        _trying = self
        end = time.monotonic() + seconds
        outcomes = {(each.function, each.before, each.after): each for each in load()}
        waiting = _waiting(stage, outcomes)
        run = this_run()
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
            while waiting and time.monotonic() < end:
                part, waiting = waiting[:_PART], waiting[_PART:]
                for mutant, (fits, name) in zip(part, pool.map(_try, part), strict=True):
                    if fits:
                        shown = (mutant.change.line, mutant.change.before, mutant.change.after)
                        tried = Outcome(mutant.function, *shown, name, stage, run)
                        outcomes[_name(mutant)] = tried
                save(list(outcomes.values()))
                noticed = sum(each.noticed_by is not None for each in outcomes.values())
                print(f"{len(outcomes)} mutants, {noticed} noticed", flush=True)

    def try_mutant(self, mutant: Mutant) -> tuple[bool, str | None]:
        """Return whether the mutant can be made, and the test that noticed it."""
        functions, code = mutated(SOURCE / mutant.file, mutant.change, self._functions)
        if code is None:
            return False, None
        return True, noticed_by(functions, code, list(self._chosen(mutant)))

    def _chosen(self, mutant: Mutant) -> Iterator[pytest.Item]:
        """Yield tests that run the function: the quickest of each module first."""
        modules: dict[str, list[tuple[float, str]]] = {}
        for name, covered in self._covered.items():
            if mutant.function in covered.functions:
                modules.setdefault(name.partition("::")[0], []).append((covered.seconds, name))
        rounds = zip_longest(*(sorted(tests) for tests in modules.values()))
        left_s = BUDGET_S
        for seconds, name in filter(None, chain.from_iterable(rounds)):
            left_s -= seconds
            if left_s < 0:
                return
            yield self._items[name]


_trying: Sample


def _waiting(stage: str, outcomes: Mapping[tuple[str, str, str], Outcome]) -> list[Mutant]:
    """Return the mutants to try: those that follow in the order, or the survivors."""
    found = mutants()
    if stage == "quick":
        return [each for each in found if _name(each) not in outcomes][: FULL - len(outcomes)]
    left = {
        name for name, each in outcomes.items() if each.noticed_by is None and each.stage != stage
    }
    return [each for each in found if _name(each) in left]


def _try(mutant: Mutant) -> tuple[bool, str | None]:
    return _trying.try_mutant(mutant)


def mutants() -> list[Mutant]:
    """Return all mutants of the rooms in an order that is random and does not change."""
    files = (file for room in ROOMS for file in sorted((SOURCE / room).rglob("*.py")))
    found = (
        Mutant(str(file.relative_to(SOURCE)), change)
        for file in files
        for change in changes(ast.parse(file.read_bytes()))
    )
    return sorted(found, key=lambda each: hashlib.sha256(repr(_name(each)).encode()).digest())


def _name(mutant: Mutant) -> tuple[str, str, str]:
    return mutant.function, mutant.change.before, mutant.change.after
