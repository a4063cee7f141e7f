"""The records that a view folds, if it says which."""

from typing import Any

from strandline.log import Log
from strandline.log.parts import check_dense
from strandline.subscriptions.screening import Screen, screen_for
from strandline.values import Topic
from strandline.values.names import check_text
from strandline.views.view import View


def view_screen(log: Log, topic: Topic, view: View[Any]) -> Screen | None:
    """Return what picks the records of a view; None for all. PredicateError if it does not fit."""
    check_dense(log, topic, "a view")
    where = check_text(view.where, "predicate")
    if not where.strip():
        return None
    found = log.describe_topic(topic)
    # Of all times that a predicate could mean, this is the same at every replay.
    return screen_for(where, found.settings, found.created_at_us)
