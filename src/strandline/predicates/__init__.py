"""Predicates: SQL text that selects rows, the same rows here and in Spark.

Promises: a text that parses returns a boolean for every row, or an error that names the
row; the same text on the same rows selects the same rows, or fails, as in Spark SQL in
ANSI mode with the session's time zone in UTC. Forms for which this cannot be promised are
not in the dialect, and are refused by the parser, with their position.

Does not depend on topics, tenants or offsets: it gets a schema, and then batches.
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
