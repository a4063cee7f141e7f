"""The page of the contract names every rule that holds it, and no other."""

import re
from pathlib import Path

from strandline import values
from strandline.testing import conformance

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "contract.md"


def test_every_rule_is_named_on_the_page_and_no_other() -> None:
    rules = {conformance.name_of(rule) for rule in conformance.RULES}
    rules |= {conformance.name_of(rule) for rule in conformance.TIMED_RULES}

    assert set(named()) - rules == set(), "these rules do not exist"
    assert rules - set(named()) == set(), "these rules hold no promise of the page"


def test_no_rule_is_named_twice() -> None:
    names = named()

    assert sorted(set(names)) == sorted(names)


def test_every_error_of_a_log_is_on_the_page() -> None:
    errors = {name for name in dir(values) if name.endswith("Error")}

    shown = set(re.findall(r"^\| `(\w+Error)` \|", PAGE.read_text(), re.MULTILINE))

    assert shown <= errors
    # Those of the rooms above the log, and the root.
    assert errors - shown == {"StrandlineError", "RejectedError", "NotReadyError"}


def test_windows_are_those_of_the_code() -> None:
    page = PAGE.read_text()

    assert f"The last {values.PRODUCER_SEQUENCES_KEPT:,} are recognised" in page
    assert f"the latest {values.IDEMPOTENCY_KEYS_KEPT:,} of a partition" in page
    assert values.IDENTITY_AGE_S == values.CONSUMER_IDLE_S == 7 * 24 * 3600
    assert "seven days of append time" in page
    assert "After seven days without activity" in page


def test_the_files_that_the_page_names_exist() -> None:
    for path in re.findall(r"`(tests/[\w/.]+)`", PAGE.read_text()):
        assert (ROOT / path).exists(), path


def named() -> list[str]:
    """Return the rules in the right-hand columns of the page's tables."""
    rows = re.findall(r"^\|[^|]+\|([^|]+)\|$", PAGE.read_text(), re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]
