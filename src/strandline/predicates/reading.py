"""Parses text with sqlglot, after all its tokens were checked.

sqlglot accepts more than Spark, and sometimes has another precedence. So the tokens are
checked first: forms that are not on the allow-list, and forms that the two would parse
differently, are refused before the parser runs.
"""

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError

from strandline.predicates.dialect import (
    CAST_TYPES,
    COMPARISONS,
    DEPTH_MAX,
    FUNCTIONS,
    JOINTS,
    NESTING_MAX,
    OTHER_NAMES,
    TEXT_CHARS_MAX,
    TOKENS,
    TOKENS_MAX,
)
from strandline.predicates.errors import PredicateError, UnsupportedPredicateError
from strandline.predicates.paths import PathText, joined_places

_SPARK = Spark()
_PARSER: Final[Any] = type(_SPARK.parser())


class _Parser(_PARSER):  # type: ignore[misc]
    """Spark's parser, which treats each function as a name with arguments."""

    FUNCTIONS: Final[dict[str, Any]] = {}
    FUNCTION_PARSERS: Final = {
        name: _PARSER.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM")
    }
    NO_PAREN_FUNCTIONS: Final[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: Final = {"CASE": _PARSER.NO_PAREN_FUNCTION_PARSERS["CASE"]}

    # A call without arguments, and an interval, would have no position.

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr.start if self._curr else 0
        return _placed(super()._parse_function_call(*args, **kwargs), start)

    def _parse_interval(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr.start if self._curr else 0
        return _placed(super()._parse_interval(*args, **kwargs), start)


def _placed(found: Any, start: int) -> Any:
    if isinstance(found, exp.Expression):
        found.meta.setdefault("start", start)
    return found


class Read(NamedTuple):
    """The tree of a text, and the paths in it by their position."""

    tree: exp.Expression
    places: dict[int, PathText]


_SEPARATORS = frozenset({"AND", "OR", "COMMA", "ALIAS", "WHEN", "THEN", "ELSE"})
_BEFORE_OPERAND = _SEPARATORS | {"", "FROM", "L_PAREN", "L_BRACKET", "NOT", "CASE"}
_NEGATED = frozenset({"IN", "LIKE", "ILIKE", "RLIKE", "BETWEEN"})
# Words after which a parenthesis opens no call.
_BEFORE_PAREN = _SEPARATORS | _NEGATED - {"RLIKE"} | {"NOT", "ANY", "ALL", "CASE", "IS", "FROM"}
_SIGNS = frozenset({"PLUS", "DASH"})
_NAMES = frozenset({"VAR", "IDENTIFIER"})
_TYPED_LITERALS = frozenset({"DATE", "TIMESTAMP"})
_PLACEHOLDERS = frozenset({"PLACEHOLDER", "COLON", "PARAMETER", "L_BRACE"})
_WORD = re.compile(r"\w+\Z")
_UNKNOWN = "UNKNOWN"
_LINE_AND_COLUMN = re.compile(r"(\d+):(\d+)")


def read(text: str) -> Read:
    """Parse `text`, which may contain only forms of the allow-list."""
    if len(text) > TEXT_CHARS_MAX:
        raise UnsupportedPredicateError(
            f"a predicate has at most {TEXT_CHARS_MAX} characters",
            position=TEXT_CHARS_MAX,
            text=text,
        )
    tokens, places = joined_places(text, _tokens(text))
    _Look(text, tokens).check()
    try:
        marked = [_marked(token) for token in tokens]
        (tree,) = _Parser(dialect=_SPARK).parse_into(exp.Condition, marked, text)
    except ParseError as error:
        raise _syntax_error(text, tokens, error) from error
    except RecursionError as error:
        raise UnsupportedPredicateError(
            "this is nested too deeply", position=0, text=text
        ) from error
    if not isinstance(tree, exp.Expression):
        raise PredicateError("this is not an expression", position=0, text=text)
    _check_depth(text, tree)
    return Read(tree, places)


def position_of(tree: exp.Expression) -> int:
    """Return the position of the first word of a part of a predicate."""
    starts = [node.meta["start"] for node in tree.walk() if "start" in node.meta]
    return min(starts, default=0)


def is_unknown(tree: exp.Expression, text: str) -> bool:
    """Whether this represents the word UNKNOWN."""
    start = tree.meta.get("start", 0)
    return isinstance(tree, exp.Literal) and text[start : start + 7].upper() == _UNKNOWN


def _marked(token: Any) -> Any:
    """Return a token for the parser, which would treat UNKNOWN as NULL."""
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
            "a string is not closed, or a character is not valid here",
            position=max(at, 0),
            text=text,
        ) from error
    if len(tokens) > TOKENS_MAX:
        raise UnsupportedPredicateError(
            f"a predicate has at most {TOKENS_MAX} tokens",
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
    if reason.startswith("Required keyword"):
        reason = "something is missing beside this"
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


@dataclass(slots=True)
class _Level:
    """The state since the last AND, OR or comma between two parentheses."""

    is_compared: bool = False
    #: BETWEEN without its AND.
    is_between: bool = False
    #: Operators between the current two comparisons, by their precedence.
    joints: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Start again after an AND, an OR or a comma."""
        self.is_compared = self.is_between = False
        self.joints.clear()


class _Look:
    """One pass over the tokens, from left to right."""

    def __init__(self, text: str, tokens: list[Any]) -> None:
        self._text = text
        self._tokens = tokens
        self._names = ["", *(token.token_type.name for token in tokens), ""]
        self._levels = [_Level()]
        self._prefixes = 0

    def check(self) -> None:
        for at, token in enumerate(self._tokens):
            before, name, after = self._names[at : at + 3]
            self._check_comments(token)
            self._check_word(token, name, before)
            if after == "L_PAREN" or name in {"ALIAS", "DCOLON"}:
                self._check_call(token, at, name, before)
            if name == "STRING":
                self._check_text(token, at, before)
            self._check_signs(token, name, before)
            self._check_order(token, before, name, after)
        if len(self._levels) > 1:
            raise PredicateError(
                "a parenthesis or a CASE is not closed",
                position=self._tokens[-1].start,
                text=self._text,
            )

    def _check_comments(self, token: Any) -> None:
        for comment in token.comments:
            # Spark continues with such a comment in the next line, and sqlglot does not.
            if comment.endswith("\\"):
                self._refuse("a comment does not end in a backslash", token)

    def _check_word(self, token: Any, name: str, before: str) -> None:
        if name in TOKENS:
            if name == "NOT" and token.text == "!" and before not in _BEFORE_OPERAND:
                self._refuse("write NOT", token)
            if name == "UNKNOWN" and before not in {"IS", "NOT"}:
                self._refuse("UNKNOWN follows IS; a column goes in backticks", token)
            return
        if (name == "COLON" and before in _NAMES) or name in {"ARROW", "DARROW"}:
            self._refuse("write payload.a.b for a value of JSON", token)
        if name in _PLACEHOLDERS:
            self._refuse("placeholders are not part of the dialect, write the value", token)
        if name in {"DOT", "L_BRACKET"}:
            self._refuse("a path begins with the name of a column, such as payload.a", token)
        if name == "DIV":
            self._refuse("write CAST(a / b AS BIGINT)", token)
        if _WORD.match(token.text):
            self._refuse("this word is not part of the dialect; a column goes in backticks", token)
        self._refuse("this sign is not part of the dialect", token)

    def _check_call(self, token: Any, at: int, name: str, before: str) -> None:
        word = token.text.lower()
        if name in {"ALIAS", "DCOLON"}:
            if name == "DCOLON" and before == "NUMBER":
                self._refuse("write CAST(… AS …), which says the type of a number as well", token)
            following = self._tokens[at + 1] if at + 1 < len(self._tokens) else token
            if following.text.lower() not in CAST_TYPES:
                known = ", ".join(sorted(CAST_TYPES)).upper()
                self._refuse(f"values cannot be cast to this, but to {known}", following)
            return
        if before in {"ALIAS", "DCOLON"}:
            return
        if name == "IDENTIFIER":
            self._refuse("write the name of a function without backticks", token)
        is_operator = name == "RLIKE" and before not in _BEFORE_OPERAND
        is_call = (name == "VAR" or _WORD.match(token.text)) and name not in _BEFORE_PAREN
        if is_call and not is_operator and word not in FUNCTIONS:
            self._refuse(f"there is no function {word} in the dialect{_nearest(word)}", token)

    def _check_text(self, token: Any, at: int, before: str) -> None:
        if before == "STRING":
            self._refuse("two texts in a row; a quote inside of one is written \\'", token)
        if before.lower() in CAST_TYPES or before in {"TEXT", "TIMESTAMPTZ"}:
            word = self._tokens[at - 1].text.upper()
            if word not in _TYPED_LITERALS:
                self._refuse("only DATE and TIMESTAMP are allowed before a text", token)

    def _check_signs(self, token: Any, name: str, before: str) -> None:
        is_prefix = before in _BEFORE_OPERAND or before in JOINTS or before in COMPARISONS
        if name == "PLUS" and is_prefix:
            self._refuse("a plus sign stands between two numbers", token)
        if name in {"NOT", "TILDE"} or (name in _SIGNS and is_prefix):
            self._prefixes += 1
            if self._prefixes > NESTING_MAX:
                self._refuse(f"at most {NESTING_MAX} signs or NOTs in a row", token)
            return
        self._prefixes = 0
        if name in JOINTS:
            self._check_joint(token, JOINTS[name])

    def _check_joint(self, token: Any, joint: str) -> None:
        """Refuse operators whose precedence differs between Spark and sqlglot."""
        joints = self._levels[-1].joints
        joints.add(joint)
        if len(joints - {"arithmetic"}) > 1 or (len(joints) > 1 and "||" in joints):
            self._refuse("put one of these two operations in parentheses", token)

    def _check_order(self, token: Any, before: str, name: str, after: str) -> None:
        level = self._levels[-1]
        if name in {"L_PAREN", "L_BRACKET", "CASE"}:
            self._open(token)
        elif name in {"R_PAREN", "R_BRACKET", "END"}:
            self._close(token)
        elif name == "AND" and level.is_between:
            level.is_between = False
            level.joints.clear()
        elif name in _SEPARATORS:
            level.begin()
        elif name in COMPARISONS:
            if level.is_compared:
                self._refuse("put one of these two comparisons in parentheses", token)
            level.begin()
            level.is_compared, level.is_between = True, name == "BETWEEN"
        elif name == "NOT" and before != "IS" and after not in _NEGATED:
            self._check_not(token, before)

    def _open(self, token: Any) -> None:
        self._levels.append(_Level())
        if len(self._levels) > NESTING_MAX:
            self._refuse(f"at most {NESTING_MAX} parentheses in each other", token)

    def _close(self, token: Any) -> None:
        if len(self._levels) == 1:
            raise PredicateError(
                "there is no opening bracket for this", position=token.start, text=self._text
            )
        self._levels.pop()

    def _check_not(self, token: Any, before: str) -> None:
        if self._levels[-1].is_compared or before not in _BEFORE_OPERAND:
            self._refuse("put NOT and what it negates in parentheses", token)

    def _refuse(self, message: str, token: Any) -> NoReturn:
        raise UnsupportedPredicateError(message, position=token.start, text=self._text)


def _nearest(word: str) -> str:
    """Return a suggestion, as the end of a sentence."""
    other = OTHER_NAMES.get(word)
    if other is not None:
        return f", write {other}"
    near = get_close_matches(word, FUNCTIONS, n=1, cutoff=0.6)
    return f", the nearest is {near[0]}" if near else ""
