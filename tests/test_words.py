"""Plain technical English: narrative words do not come back.

The words that are checked, and what to write instead, stand in one table here.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TREES = ("src", "tests", "tools", "benchmarks", "examples", "torture")
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")

#: A pattern of whole words, and what to write in its place.
REPLACEMENTS = {
    r"whoever|whomever|somebody|someone|nobody|anybody|everybody": (
        "any process, another process, no thread, each waiter"
    ),
    r"(is|are|was|were|be|been) told": "gets, raises, is notified",
    r"(says?|said|tells?) so": "raises, reports it",
    r"unless told( otherwise)?": "by default",
    r"rob|robs|robbed|robber|robbing": "fence, fenced writer, take over",
    r"(deal|deals|dealt|dealing) with": "handle, ack",
    r"(see|sees|seen|seeing) to it": "handle",
    r"mend|mends|mended|mending": "fix, repair",
    r"asleep": "blocked, waiting",
    r"foretell|half a pair": "cryptographically random; unpaired surrogate",
    r"times as good": "ratio (higher is better)",
    r"parking (place|topic)s?": "dead-letter topic",
    r"(put|puts) down (the|its|a) names?|strikes? (it |its name )?out": "register, unregister",
    r"refused? aloud|politely|anew": "raises; again",
    r"(sign|signs) of life": "heartbeat",
}
#: Of tests, names count: a name is the sentence that a reader of a failure sees.
IN_TEST_NAMES = (
    r"whoever|whomever|somebody|someone|nobody|anybody|everybody|robbed|mended|told|asleep"
)


def found(text: str) -> Iterator[str]:
    """Yield each line with such a word, and what to write instead."""
    for pattern, instead in REPLACEMENTS.items():
        # A line may end between two words, and the next begin with the sign of a comment.
        wrapped = pattern.replace(" ", r"[\s#*]+")
        words = re.compile(rf"(?<![\w-])(?:{wrapped})(?![\w-])", re.IGNORECASE)
        for match in words.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{line}: '{match.group()}', write: {instead}"


def files() -> list[Path]:
    checked = [
        *(path for tree in TREES for path in sorted(ROOT.glob(f"{tree}/**/*.py"))),
        *(path for end in ("c", "h", "pyi") for path in sorted(ROOT.glob(f"src/**/*.{end}"))),
        *sorted(ROOT.glob("docs/**/*.md")),
        *(ROOT / page for page in PAGES),
    ]
    return [path for path in checked if path != Path(__file__).resolve()]


@pytest.mark.slow
def test_code_and_pages_use_the_words_of_the_field() -> None:
    problems = [
        f"{path.relative_to(ROOT)}:{problem}"
        for path in files()
        for problem in found(path.read_text("utf-8"))
    ]

    assert not problems, "\n".join(["words that need translating:", *problems])


def test_names_of_tests_use_the_words_of_the_field() -> None:
    words = re.compile(rf"_(?:{IN_TEST_NAMES})(?:_|$)")
    names = [
        (path, name)
        for path in sorted(ROOT.glob("tests/**/*.py"))
        for name in (path.stem, *re.findall(r"def (test_\w+)", path.read_text("utf-8")))
    ]

    problems = [f"{path.relative_to(ROOT)}: {name}" for path, name in names if words.search(name)]

    assert not problems, "\n".join(["names that need translating:", *problems])


@pytest.mark.parametrize(
    "text",
    [
        *("Whoever waits is told.", "held by\nnobody", "open it anew", "a robbed writer"),
        *("it is a sign\n    of life", "what is  # told", " * this is\n * told to others"),
    ],
)
def test_the_check_finds_such_a_word(text: str) -> None:
    assert list(found(text))


@pytest.mark.parametrize("text", ["the robot", "`nobody_else`", "a recommended value"])
def test_the_check_leaves_other_words_alone(text: str) -> None:
    assert not list(found(text))
