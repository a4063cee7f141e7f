"""The contract says what a log promises, and `Log` takes the very same arguments."""

import ast
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "src" / "strandline" / "log"


def signatures(source: str) -> dict[str, str]:
    """Return arguments, defaults and annotations of each public method, as they are written."""
    return {
        node.name: f"({ast.unparse(node.args)}) -> {node.returns and ast.unparse(node.returns)}"
        for kind in ast.parse(source).body
        if isinstance(kind, ast.ClassDef) and kind.name.startswith("Log")
        for node in kind.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def test_the_log_takes_what_its_contract_says() -> None:
    promised = signatures((ROOM / "contract.py").read_text())
    taken = signatures((ROOM / "log.py").read_text())

    assert len(promised) > 30
    assert {name: taken.get(name) for name in promised} == promised


@pytest.mark.parametrize(
    ("old", "new"),
    [("force: bool = False", "force: bool = True"), ("before: int", "until: int")],
)
def test_a_signature_that_differs_is_found(old: str, new: str) -> None:
    source = (ROOM / "log.py").read_text()
    assert old in source

    assert signatures(source.replace(old, new)) != signatures(source)
