"""How a log looks in a notebook."""

from typing import TYPE_CHECKING

from strandline.values import ClosedError
from strandline.values.html import ROWS_MAX, html_fields, html_table

if TYPE_CHECKING:
    from strandline.log.log import Log


def log_html(log: "Log") -> str:
    """Return its topics as a table."""
    try:
        found = log.describe()
        topics = log.topics()
        rows = [
            (each.topic.name, str(each.settings.value_kind), len(each.marks), each.records)
            for each in map(log.describe_topic, topics[:ROWS_MAX])
        ]
    except ClosedError:
        return html_fields("Log", {"state": "closed"})
    header = ("topic", "kind", "partitions", "records")
    title = f"Log {found.location}, {found.mode}"
    return html_table(title, header, rows, count=len(topics))
