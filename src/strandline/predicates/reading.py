"""From text to sqlglot's tree, once every word of it is known to be allowed.

sqlglot takes more than Spark does, and here and there binds it in another order. So the
tokens are looked at first: what is not on the allow-list, and what the two could read in
two ways, does not get as far as the parser.
"""

import re
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError

from strandline.predicates.dialect import (
    ARITHMETIC,
    CAST_TYPES,
    COMPARISONS,
    DEPTH_MAX,
    FUNCTIONS,
    NESTING_MAX,
    TEXT_CHARS_MAX,
    TOKENS,
    TOKENS_MAX,
)
from strandline.predicates.errors import PredicateError, UnsupportedPredicateError

_SPARK = Spark()
_BEFORE_OPERAND = frozenset({"", "L_PAREN", "L_BRACKET", "COMMA", "AND", "OR", "NOT"})
_SIGNS = frozenset({"PLUS", "DASH"})
_TYPED_LITERALS = frozenset({"DATE", "TIMESTAMP"})
_PLACEHOLDERS = frozenset({"PLACEHOLDER", "COLON", "PARAMETER", "L_BRACE"})
_WORD = re.compile(r"\w+\Z")
_UNKNOWN = "UNKNOWN"
_LINE_AND_COLUMN = re.compile(r"(\d+):(\d+)")


def read(text: str) -> exp.Expression:
    """Return the tree of `text`, which has only what the allow-list has."""
    if len(text) > TEXT_CHARS_MAX:
        raise UnsupportedPredicateError(
            f"a predicate has at most {TEXT_CHARS_MAX} characters",
            position=TEXT_CHARS_MAX,
            text=text,
        )
    tokens = _tokens(text)
    _Look(text, tokens).check()
    try:
        told_apart = [_marked(token) for token in tokens]
        (tree,) = _SPARK.parser().parse_into(exp.Condition, told_apart, text)
    except ParseError as error:
        raise _syntax_error(text, tokens, error) from error
    except RecursionError as error:
        raise UnsupportedPredicateError(
            "this is nested too deeply", position=0, text=text
        ) from error
    if not isinstance(tree, exp.Expression):
        raise PredicateError("this is no expression", position=0, text=text)
    _check_depth(text, tree)
    return tree


def position_of(tree: exp.Expression) -> int:
    """Return where the first word of a part of a predicate stands."""
    starts = [node.meta["start"] for node in tree.walk() if "start" in node.meta]
    return min(starts, default=0)


def is_unknown(tree: exp.Expression, text: str) -> bool:
    """Whether this stands for the word UNKNOWN."""
    start = tree.meta.get("start", 0)
    return isinstance(tree, exp.Literal) and text[start : start + 7].upper() == _UNKNOWN


def _marked(token: Any) -> Any:
    """Return a token as the parser is to see it: it would take UNKNOWN for NULL."""
    kind = token.token_type
    if kind.name != _UNKNOWN:
        return token
    return type(token)(type(kind).STRING, _UNKNOWN, token.line, token.col, token.start, token.end)


def _tokens(text: str) -> list[Any]:
    try:
        tokens = list(_SPARK.tokenize(text))
    except TokenError as error:
        found = _LINE_AND_COLUMN.search(str(error))
        at = _offset(text, int(found[1]), int(found[2])) if found else len(text) - 1
        raise PredicateError(
            "this text is not closed, or holds a character that means nothing",
            position=max(at, 0),
            text=text,
        ) from error
    if len(tokens) > TOKENS_MAX:
        raise UnsupportedPredicateError(
            f"a predicate has at most {TOKENS_MAX} words and signs",
            position=tokens[TOKENS_MAX].start,
            text=text,
        )
    return tokens


def _offset(text: str, line: int, column: int) -> int:
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    return min(starts[line - 1] + column - 1, len(text) - 1)


def _syntax_error(text: str, tokens: list[Any], error: ParseError) -> PredicateError:
    found = error.errors[0] if error.errors else {}
    place = found.get("line"), found.get("col")
    at = next((each.start for each in tokens if (each.line, each.col) == place), 0)
    reason = str(found.get("description") or "unexpected word").split(" for <")[0].rstrip(".")
    return PredicateError(f"this is not a predicate: {reason}", position=at, text=text)


def _check_depth(text: str, tree: exp.Expression) -> None:
    found: list[tuple[exp.Expression, int]] = [(tree, 1)]
    while found:
        node, depth = found.pop()
        if depth > DEPTH_MAX:
            raise UnsupportedPredicateError(
                f"a predicate is at most {DEPTH_MAX} levels deep", position=0, text=text
            )
        for each in node.iter_expressions():
            is_chain = isinstance(node, exp.And | exp.Or) and type(each) is type(node)
            found.append((each, depth if is_chain else depth + 1))


class _Look:
    """One look at the tokens, from left to right."""

    def __init__(self, text: str, tokens: list[Any]) -> None:
        self._text = text
        self._tokens = tokens
        self._names = ["", *(token.token_type.name for token in tokens), ""]
        # For each open parenthesis: whether a comparison was met, and BETWEEN without its AND.
        self._levels = [[False, False]]
        self._prefixes = 0

    def check(self) -> None:
        for at, token in enumerate(self._tokens):
            before, name, after = self._names[at : at + 3]
            self._check_word(token, name, before)
            if after == "L_PAREN" or name == "ALIAS":
                self._check_call(token, at, name, before)
            if name == "STRING":
                self._check_text(token, before)
            self._check_signs(token, name, before)
            self._check_order(token, before, name, after)
        if len(self._levels) > 1:
            raise PredicateError(
                "a parenthesis is not closed", position=self._tokens[-1].start, text=self._text
            )

    def _check_word(self, token: Any, name: str, before: str) -> None:
        if token.comments:
            self._refuse("comments are not part of the dialect", token)
        if name in TOKENS:
            if name == "NOT" and token.text == "!" and before not in _BEFORE_OPERAND:
                self._refuse("write NOT", token)
            if name == "UNKNOWN" and before not in {"IS", "NOT"}:
                self._refuse("UNKNOWN follows IS; a column goes in backticks", token)
            return
        if name == "DCOLON":
            self._refuse("write CAST(… AS …), which says the type of a number as well", token)
        if name in _PLACEHOLDERS:
            self._refuse("placeholders are not part of the dialect, write the value", token)
        if _WORD.match(token.text):
            self._refuse("this word is not part of the dialect; a column goes in backticks", token)
        self._refuse("this sign is not part of the dialect", token)

    def _check_call(self, token: Any, at: int, name: str, before: str) -> None:
        word = token.text.lower()
        if name == "ALIAS":
            following = self._tokens[at + 1] if at + 1 < len(self._tokens) else token
            if following.text.lower() not in CAST_TYPES:
                self._refuse("values are not cast to this", following)
            return
        is_word = name == "VAR" or (_WORD.match(token.text) and name in {"TEXT", "IDENTIFIER"})
        if (name in {"VAR", "IDENTIFIER"} or is_word) and word not in FUNCTIONS:
            self._refuse("this function is not part of the dialect", token)
        if word in CAST_TYPES and before != "ALIAS":
            self._refuse("this function is not part of the dialect, write CAST", token)

    def _check_text(self, token: Any, before: str) -> None:
        if before == "STRING":
            self._refuse("two texts in a row; a quote inside of one is written \\'", token)
        if before.lower() in CAST_TYPES or before in {"TEXT", "TIMESTAMPTZ"}:
            word = self._tokens[self._tokens.index(token) - 1].text.upper()
            if word not in _TYPED_LITERALS:
                self._refuse("only DATE and TIMESTAMP stand before a text", token)

    def _check_signs(self, token: Any, name: str, before: str) -> None:
        is_prefix = before in _BEFORE_OPERAND or before in ARITHMETIC or before in COMPARISONS
        if name == "PLUS" and is_prefix:
            self._refuse("a plus sign stands between two numbers", token)
        if name == "NOT" or (name in _SIGNS and is_prefix):
            self._prefixes += 1
            if self._prefixes > NESTING_MAX:
                self._refuse(f"at most {NESTING_MAX} signs or NOTs in a row", token)
        else:
            self._prefixes = 0

    def _check_order(self, token: Any, before: str, name: str, after: str) -> None:
        level = self._levels[-1]
        if name in {"L_PAREN", "L_BRACKET"}:
            self._open(token)
        elif name in {"R_PAREN", "R_BRACKET"}:
            self._close(token)
        elif name == "AND" and level[1]:
            level[1] = False
        elif name in {"AND", "OR", "COMMA", "ALIAS"}:
            level[:] = False, False
        elif name in COMPARISONS:
            if level[0]:
                self._refuse("put one of these two comparisons in parentheses", token)
            level[:] = True, name == "BETWEEN"
        elif name == "NOT" and before != "IS" and after not in {"IN", "LIKE", "BETWEEN"}:
            self._check_not(token, before)

    def _open(self, token: Any) -> None:
        self._levels.append([False, False])
        if len(self._levels) > NESTING_MAX:
            self._refuse(f"at most {NESTING_MAX} parentheses in each other", token)

    def _close(self, token: Any) -> None:
        if len(self._levels) == 1:
            raise PredicateError("this closes nothing", position=token.start, text=self._text)
        self._levels.pop()

    def _check_not(self, token: Any, before: str) -> None:
        if self._levels[-1][0] or before not in _BEFORE_OPERAND:
            self._refuse("put NOT and what it negates in parentheses", token)

    def _refuse(self, message: str, token: Any) -> NoReturn:
        raise UnsupportedPredicateError(message, position=token.start, text=self._text)
