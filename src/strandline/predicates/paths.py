"""A name followed by steps into its value, such as `payload.items[0].sku`.

sqlglot would read the dots as catalogue, database and table, and a step such as `.order`
as a keyword. So a name and its steps become one token before the parser runs.
"""

import re
from typing import Any, Final, NamedTuple, NoReturn

from sqlglot.tokenizer_core import TokenType

from strandline.predicates.dialect import STEPS_MAX
from strandline.predicates.errors import PredicateError, UnsupportedPredicateError
from strandline.predicates.steps import Path
from strandline.predicates.texts import unquoted

_WORD: Final = re.compile(r"[^\W\d]\w*\Z")
_INDEX: Final = re.compile(r"[0-9]{1,9}\Z")
_NAMES: Final = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_BEGINS: Final = frozenset({TokenType.DOT, TokenType.L_BRACKET})


class PathText(NamedTuple):
    """A path in a predicate: its first name, its steps, and their positions."""

    name: str
    steps: Path
    starts: tuple[int, ...]
    """The position of each step in the text."""
    start: int
    end: int


def joined_places(text: str, tokens: list[Any]) -> tuple[list[Any], dict[int, PathText]]:
    """Return the tokens with each path as one token, and the paths by position."""
    left: list[Any] = []
    places: dict[int, PathText] = {}
    at = 0
    while at < len(tokens):
        token = tokens[at]
        following = tokens[at + 1].token_type if at + 1 < len(tokens) else None
        if token.token_type not in _NAMES or following not in _BEGINS:
            left.append(token)
            at += 1
            continue
        place, at = _Steps(text, tokens).read(at)
        places[place.start] = place
        left.append(
            type(token)(
                TokenType.IDENTIFIER, place.name, token.line, token.col, place.start, place.end
            )
        )
    return left, places


class _Steps:
    """Reads the steps that follow a name."""

    def __init__(self, text: str, tokens: list[Any]) -> None:
        self._text = text
        self._tokens = tokens

    def read(self, at: int) -> tuple[PathText, int]:
        """Return the path that begins at a token, and the token that follows it."""
        first = last = self._tokens[at]
        steps: list[str | int] = []
        starts: list[int] = []
        at += 1
        while at < len(self._tokens) and self._tokens[at].token_type in _BEGINS:
            step, last, following = self._step(at)
            steps.append(step)
            starts.append(self._tokens[at + 1].start)
            at = following
        if len(steps) > STEPS_MAX:
            raise UnsupportedPredicateError(
                f"a path has at most {STEPS_MAX} steps", position=first.start, text=self._text
            )
        return PathText(first.text, tuple(steps), tuple(starts), first.start, last.end), at

    def _step(self, at: int) -> tuple[str | int, Any, int]:
        token = self._token(at + 1)
        if self._tokens[at].token_type is TokenType.DOT:
            return self._name(token), token, at + 2
        closing = self._token(at + 2)
        if closing.token_type is not TokenType.R_BRACKET:
            self._refuse("write [0] for a position or ['name'] for a name", token)
        if token.token_type is TokenType.STRING:
            return self._quoted(token), closing, at + 3
        if token.token_type is not TokenType.NUMBER or not _INDEX.match(token.text):
            self._refuse("a position is a whole number from 0, a name stands in quotes", token)
        return int(token.text), closing, at + 3

    def _token(self, at: int) -> Any:
        if at < len(self._tokens):
            return self._tokens[at]
        raise PredicateError(
            "a path ends here without its next step",
            position=self._tokens[-1].start,
            text=self._text,
        )

    def _name(self, token: Any) -> str:
        if token.token_type is not TokenType.IDENTIFIER and not _WORD.match(token.text):
            self._refuse("a name like this goes in backticks", token)
        name: str = token.text
        return name

    def _quoted(self, token: Any) -> str:
        try:
            return unquoted(self._text[token.start : token.end + 1])
        except ValueError as error:
            self._refuse(str(error), token)

    def _refuse(self, message: str, token: Any) -> NoReturn:
        raise UnsupportedPredicateError(message, position=token.start, text=self._text)
