"""A random sample of all mutants, which grows from run to run: torture/mutants.json."""

import ast
import hashlib
import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice, zip_longest

import msgspec
import pytest

from tools.this_run import ROOT, this_run
from torture.mutants.changes import Change, changes
from torture.mutants.coverage import cover
from torture.mutants.outcomes import Name, Outcome, load, load_explained, save
from torture.mutants.trial import Codes, functions_of, mutated, noticed_by

SOURCE = ROOT / "src" / "strandline"
ROOMS = ("writes", "log", "subscriptions")
#: In the order in which a mutant goes through them.
STAGES = ("quick", "core", "rest")
#: How many mutants are tried in all.
FULL = 1_000
#: The longest that the tests of one mutant may take together.
BUDGET_S = 20.0
#: After how many mutants the outcomes are stored.
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

    def __init__(self, stage: str, items: Mapping[str, pytest.Item], *, again: bool) -> None:
        self._stage = stage
        self._is_again = again
        self._items = items
        self._functions = functions_of(SOURCE)
        # As this process has loaded them: the files may be edited while it runs.
        self._sources = _sources()
        saved_as = "plain" if stage == STAGES[0] else "compiled"
        self._covered = cover(list(items.values()), SOURCE, ROOMS, saved_as)

    def run(self, seconds: float) -> None:
        """Try mutants until all of the stage are tried, or the time is over."""
        global _trying  # noqa: PLW0603 # Forked processes inherit it.
        _trying = self
        end = time.monotonic() + seconds
        found = {_name(each): each for each in mutants(self._sources)}
        # Outcomes of code that has changed since are dropped.
        outcomes = {each.name: each for each in load() if each.name in found}
        waiting = self._waiting(found, outcomes)
        run = this_run()
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
            while waiting and time.monotonic() < end:
                part, waiting = waiting[:_PART], waiting[_PART:]
                for mutant, (fits, name) in zip(part, pool.map(_try, part), strict=True):
                    if fits:
                        shown = (mutant.change.line, mutant.change.before, mutant.change.after)
                        tried = Outcome(mutant.function, *shown, name, self._stage, run)
                        outcomes[_name(mutant)] = tried
                    else:
                        outcomes.pop(_name(mutant), None)
                save(list(outcomes.values()))
                noticed = sum(each.noticed_by is not None for each in outcomes.values())
                print(f"{len(outcomes)} mutants, {noticed} noticed", flush=True)

    def _waiting(
        self, found: Mapping[Name, Mutant], outcomes: Mapping[Name, Outcome]
    ) -> list[Mutant]:
        """Return the mutants to try: first the next ones, in later stages the survivors."""
        explained = load_explained()
        survivors = {
            name: STAGES.index(each.stage)
            for name, each in outcomes.items()
            if each.noticed_by is None and name not in explained
        }
        stage = STAGES.index(self._stage)
        if stage:
            left = {name for name, last in survivors.items() if last < stage}
            return [mutant for name, mutant in found.items() if name in left]
        again = survivors if self._is_again else {}
        new = (name for name in found if name not in outcomes and self._codes(found[name]))
        following = islice(new, max(0, FULL - len(outcomes)))
        return [found[name] for name in (*(name for name in found if name in again), *following)]

    def try_mutant(self, mutant: Mutant) -> tuple[bool, str | None]:
        """Return whether the mutant can be made, and the test that noticed it."""
        codes = self._codes(mutant)
        if not codes:
            return False, None
        return True, noticed_by(codes, list(self._chosen(mutant)))

    def _codes(self, mutant: Mutant) -> Codes:
        source = self._sources[mutant.file]
        return mutated(SOURCE / mutant.file, source, mutant.change, self._functions)

    def _chosen(self, mutant: Mutant) -> Iterator[pytest.Item]:
        """Yield tests that run the changed line, until their times reach the budget: in turn
        the one that covers the fewest lines, and the quickest of the next test module.
        """
        modules: dict[str, list[tuple[float, str]]] = {}
        for name, covered in self._covered.items():
            if covered.runs(mutant.file, mutant.change.line):
                modules.setdefault(name.partition("::")[0], []).append((covered.seconds, name))
        rounds = zip_longest(*(sorted(tests) for tests in modules.values()))
        quickest = [each for each in chain.from_iterable(rounds) if each is not None]
        narrowest = sorted(quickest, key=lambda each: self._covered[each[1]].count)
        left_s = BUDGET_S
        for seconds, name in dict.fromkeys(
            chain.from_iterable(zip(narrowest, quickest, strict=True))
        ):
            left_s -= seconds
            if left_s < 0:
                return
            yield self._items[name]


_trying: Sample


def _try(mutant: Mutant) -> tuple[bool, str | None]:
    return _trying.try_mutant(mutant)


def mutants(sources: Mapping[str, bytes]) -> list[Mutant]:
    """Return all mutants in an order that is random and does not change."""
    found = (
        Mutant(file, change)
        for file, source in sources.items()
        for change in changes(ast.parse(source))
    )
    return sorted(found, key=lambda each: hashlib.sha256(repr(_name(each)).encode()).digest())


def _sources() -> dict[str, bytes]:
    files = (file for room in ROOMS for file in sorted((SOURCE / room).rglob("*.py")))
    return {str(file.relative_to(SOURCE)): file.read_bytes() for file in files}


def _name(mutant: Mutant) -> Name:
    return mutant.function, mutant.change.before, mutant.change.after
