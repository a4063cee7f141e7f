"""Mutants: what is changed, and that tests are run on the changed code."""

import ast
import json
import subprocess
import sys
from pathlib import Path

from torture.mutants.changes import changed, changes
from torture.mutants.outcomes import load_explained
from torture.mutants.sample import SOURCE as SOURCE_ROOT
from torture.mutants.sample import mutants

SOURCE = '''
class Till:
    """A till."""

    def add(self, amount: int = 0) -> int:
        """Add an amount."""
        if amount < 1 and not self.is_open:
            raise ValueError(f"no {amount + 1}")
        self.total = self.total + amount
        return self.total
'''

SHOP = """
from typing import overload

def rest(paid: int, price: int) -> int:
    if paid < price:
        return 0
    return paid - price

def made():
    def total(price: int) -> int:
        return price + 1
    return total

with_tax = made()

@overload
def shown(price: int) -> str: ...
@overload
def shown(price: str) -> str: ...
def shown(price):
    return str(price)
"""

TESTS = """
from shop import rest, shown, with_tax

def test_rest():
    assert rest(5, 3) == 2

def test_too_little():
    assert rest(1, 3) == 0

def test_tax():
    assert with_tax(3) == 4

def test_shown():
    assert shown(3) == "3"
"""

TRIAL = """
import ast, json, sys
from pathlib import Path
import pytest
from torture.mutants.changes import changes
from torture.mutants.trial import functions_of, mutated, noticed_by

class Trials:
    def pytest_runtestloop(self, session):
        import shop
        file = Path(shop.__file__)
        live = functions_of(file.parent)
        found = {}
        for change in changes(ast.parse(file.read_bytes())):
            codes = mutated(file, file.read_bytes(), change, live)
            name = noticed_by(codes, session.items)
            found[f"{change.before} -> {change.after}"] = name and name.partition("::")[2]
        Path("found.json").write_text(json.dumps(found))
        return True

sys.exit(pytest.main(["-n0", "-q", "-p", "no:cacheprovider", "test_shop.py"], plugins=[Trials()]))
"""


def test_each_change_of_a_function_is_found_once() -> None:
    found = [(each.before, each.after) for each in changes(ast.parse(SOURCE))]

    assert found == [
        (
            "if amount < 1 and (not self.is_open): …",
            "if not (amount < 1 and (not self.is_open)): …",
        ),
        ("amount < 1 and (not self.is_open)", "amount < 1 or not self.is_open"),
        ("amount < 1", "amount <= 1"),
        ("1", "2"),
        ("not self.is_open", "self.is_open"),
        ("raise ValueError(f'no {amount + 1}')", "pass"),
        ("self.total = self.total + amount", "pass"),
        ("self.total + amount", "self.total - amount"),
        ("return self.total", "return None"),
    ]


def test_a_change_is_made_in_its_place_and_nowhere_else() -> None:
    tree = ast.parse(SOURCE)

    for change in changes(tree):
        lines = ast.unparse(changed(tree, change)).splitlines()
        differing = set(lines) ^ set(ast.unparse(tree).splitlines())
        assert 1 <= len(differing) <= 2, (change, differing)


def test_a_mutant_is_noticed_by_the_test_that_fails_on_it(tmp_path: Path) -> None:
    for name, text in {"shop.py": SHOP, "test_shop.py": TESTS, "trial.py": TRIAL}.items():
        (tmp_path / name).write_text(text)
    root = Path(__file__).parents[1]

    subprocess.run(
        [sys.executable, "trial.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{root}", "PATH": ""},
        check=True,
        capture_output=True,
        timeout=300,
    )

    assert json.loads((tmp_path / "found.json").read_text()) == {
        "if paid < price: … -> if not paid < price: …": "test_rest",
        "paid < price -> paid <= price": None,
        "return 0 -> return None": "test_too_little",
        "0 -> 1": "test_too_little",
        "return paid - price -> return None": "test_rest",
        "paid - price -> paid + price": "test_rest",
        # What the module has made of a function has changed code, too.
        "return price + 1 -> return None": "test_tax",
        "price + 1 -> price - 1": "test_tax",
        "1 -> 2": "test_tax",
        "return total -> return None": None,
        "return str(price) -> return None": "test_shown",
    }


def test_each_mutant_that_is_explained_is_one() -> None:
    files = {each[0].partition(":")[0] for each in load_explained()}
    sources = {file: (SOURCE_ROOT / file).read_bytes() for file in files}
    names = {(each.function, each.change.before, each.change.after) for each in mutants(sources)}

    assert not load_explained().keys() - names
    assert all(each.why for each in load_explained().values())
