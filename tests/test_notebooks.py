"""What notebooks show: small tables, with escaped content."""

import contextlib
import signal
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import strandline as sl
from strandline.values.html import html_fields, html_table

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
EVIL = "<script>alert('&\"')</script>\x1b\u202e"


class Tags(HTMLParser):
    """Collects the tags and the text of a fragment."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def shown(value: object) -> list[str]:
    """Return the texts in what a notebook shows of a value."""
    found = Tags(value._repr_html_())  # type: ignore[attr-defined]
    assert set(found.tags) <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    return found.text


class Counting(sl.View[list[int]]):
    def initial(self, partition: int) -> list[int]:
        return [0 * partition]

    def apply(self, state: list[int], record: sl.Record) -> None:
        state[0] += 1 if record.key is None else 2


@pytest.mark.parametrize("scheme", ["memory:", "file:", "sqlite:"])
def test_a_log_and_what_it_gives_are_shown(scheme: str, tmp_path: Path) -> None:
    url = scheme if scheme == "memory:" else f"{scheme}{tmp_path / 'log'}"
    with sl.open(url) as log:
        topic = log.create_topic("orders", partitions=12)
        receipt = log.append("orders", sl.Event("a"), partition=1)
        many = log.append_many("orders", [sl.Event("a")] * 30, partition=2)
        log.ack("orders", "mailer", 2, 10)
        [lag] = log.consumers("orders")

        assert {"orders", "12", "31"} <= set(shown(log))
        assert str(topic.id) in shown(topic)
        assert {"partition", "1", "offset", "0", str(receipt.level)} <= set(shown(receipt))
        assert {"30 receipts", "and 20 more"} <= set(shown(many))
        assert f"{receipt!r}".startswith("Receipt(partition=1, offset=0, timestamp=20")
        assert f"level={receipt.level}, repeat=False)" in f"{receipt!r}"
        assert f"{many!r}".startswith("[Receipt(partition=2, offset=0, ")
        assert f"{many!r}".endswith(", … 20 more]")
        assert "more" not in f"{many[:10]!r} {log.append_many('orders', [sl.Event('a')] * 10)!r}"
        assert {"Consumer mailer", "10", "20"} <= set(shown(lag))
        assert "and 2 more" in shown(log.describe_topic("orders"))
        with log.subscribe("orders", start={2: 5}) as arriving:
            next(arriving)
            assert {"orders", "2", "6"} <= set(shown(arriving))
        assert "Subscription, closed" in shown(arriving)
        with sl.LiveView(log, "orders", Counting()) as view:
            view.reconcile([1, 2])
            view.wait_ready()
            assert {"View Counting of orders, running", "ready", "29"} <= set(shown(view))
    assert "closed" in shown(log)


def test_a_receipt_shows_an_outcome_that_is_open_and_one_that_failed(tmp_path: Path) -> None:
    with sl.open(f"sqlite:{tmp_path / 'log'}") as log:
        log.create_topic("orders")
        with contextlib.suppress(ZeroDivisionError), log.transaction():
            receipt = log.append("orders", sl.Event("a"))
            assert f"{receipt!r}" == "Receipt(outcome=not known yet)"
            assert "not known yet" in shown(receipt)
            raise ZeroDivisionError

        assert f"{receipt!r}".startswith("Receipt(outcome=InvalidError: ")
        assert any("rolled back" in text for text in shown(receipt))


def test_nothing_that_is_shown_is_obeyed() -> None:
    table = html_table(EVIL, [EVIL], [[EVIL], [None], [True], [12_345], ["x" * 1000]])
    fields = html_fields(EVIL, {EVIL: EVIL})

    for fragment in (table, fields):
        found = Tags(fragment)
        assert "script" not in found.tags
        assert "<script>alert('&\"')</script>\\x1b\\u202e" in found.text
    assert {"-", "yes", "12,345"} <= set(Tags(table).text)
    assert len(table) < 1500


@pytest.mark.slow
def test_the_example_notebook_runs_and_shows_what_it_says(tmp_path: Path) -> None:
    notebook = nbformat.reads(NOTEBOOK.read_text(), as_version=4)  # type: ignore[no-untyped-call]
    assert all(not cell.get("outputs") for cell in notebook.cells), "stored without outputs"

    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        NotebookClient(
            notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
        ).execute()
    finally:
        signal.signal(signal.SIGINT, on_interrupt)

    tables = [
        output["data"]["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]
    titles = ("Log file:", "Topic orders", "Receipt", "Consumer mailer", "Subscription", "View ")
    for title in titles:
        assert any(f"<strong>{title}" in each for each in tables), title
    assert any("written" in each for each in tables), "a cell waits for its outcome"
