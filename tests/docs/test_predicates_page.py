"""The page of the dialect has the tables of the allow-list."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from strandline.predicates import dialect, parse_predicate

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "predicates.md"
TYPES = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
    *("string", "date", "timestamp"),
)


def test_the_page_has_the_tables_of_the_allow_list() -> None:
    page = PAGE.read_text()

    for name, table in tables().items():
        shown = re.search(rf"<!-- {name} -->\n\n((?:\|.*\n)+)", page)
        assert shown is not None, f"put this below <!-- {name} -->:\n{table}"
        assert shown[1] == table, f"put this below <!-- {name} -->:\n{table}"


def test_every_type_that_is_cast_has_a_line() -> None:
    assert (
        set(TYPES) == set(dialect.CASTS) == {to for each in dialect.CASTS.values() for to in each}
    )


def tables() -> dict[str, str]:
    return {
        "forms": table(("form", "takes", "meaning"), dialect.FORMS),
        "functions": table(
            ("function", "takes", "gives"), (each[:3] for each in dialect.FUNCTIONS.values())
        ),
        "examples": table(
            ("function", "example"),
            ((f"`{name}`", f"`{each.example}`") for name, each in dialect.FUNCTIONS.items()),
        ),
        "casts": table(
            ("from", *(name.upper() for name in TYPES)),
            (
                (name.upper(), *("yes" if to in dialect.CASTS[name] else "" for to in TYPES))
                for name in TYPES
            ),
        ),
        "bounds": table(
            ("of", "at most"),
            (
                ("characters", str(dialect.TEXT_CHARS_MAX)),
                ("tokens", str(dialect.TOKENS_MAX)),
                ("parentheses in each other, signs or NOTs in a row", str(dialect.NESTING_MAX)),
                ("levels, a chain of ANDs or ORs being one", str(dialect.DEPTH_MAX)),
                ("characters of a pattern", str(dialect.PATTERN_CHARS_MAX)),
                ("wildcards of a pattern", str(dialect.PATTERN_WILDCARDS_MAX)),
                ("repetitions in a regular expression", str(dialect.REPETITIONS_MAX)),
                ("steps of a path", str(dialect.STEPS_MAX)),
            ),
        ),
    }


@pytest.mark.parametrize("name", dialect.FUNCTIONS)
def test_the_example_of_each_function_is_true(name: str) -> None:
    batch = pa.record_batch({"tags": pa.array([["x", "y"]], pa.list_(pa.string()))})

    found = parse_predicate(dialect.FUNCTIONS[name].example, batch.schema).matches(batch)

    assert found.to_pylist() == [True]


def table(head: tuple[str, ...], rows: object) -> str:
    assert hasattr(rows, "__iter__")
    lines = [head, ("---",) * len(head), *rows]
    escaped = [[cell.replace("|", "\\|") for cell in cells] for cells in lines]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)


def write() -> None:
    """Write the tables into the page: python -m tests.docs.test_predicates_page."""
    page = PAGE.read_text()
    for name, made in tables().items():
        page = re.sub(
            rf"<!-- {name} -->\n\n(?:\|.*\n)*\n?",
            lambda _, name=name, made=made: f"<!-- {name} -->\n\n{made}\n",  # type: ignore[misc]
            page,
        )
    PAGE.write_text(page)


if __name__ == "__main__":
    write()
