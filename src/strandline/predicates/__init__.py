"""Predicates: SQL text that picks rows, the same rows here and in Spark.

Promises: a text that parses gives a boolean for every row, or an error that names the
row; the same text on the same rows selects the same rows, or fails, as in Spark SQL in
ANSI mode with the session's time zone in UTC. What cannot be promised is not in the
dialect, and is refused when it is parsed, with its position.

Does not know topics, tenants or offsets: it is given a schema, and then batches.
"""

from strandline.predicates.errors import (
    PredicateError,
    PredicateEvalError,
    UnsupportedPredicateError,
)
from strandline.predicates.predicate import (
    EVENT_COLUMNS,
    Predicate,
    check_syntax,
    event_columns,
    matches_each,
    parse_predicate,
)

__all__ = [
    "EVENT_COLUMNS",
    "Predicate",
    "PredicateError",
    "PredicateEvalError",
    "UnsupportedPredicateError",
    "check_syntax",
    "event_columns",
    "matches_each",
    "parse_predicate",
]
