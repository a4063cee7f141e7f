"""The words that people search for lead to a page, also where ours differ."""

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
WORDS = (
    *("dead letter", "consumer group", "exactly once", "at least once", "outbox", "CDC"),
    *("backpressure", "compaction", "lag", "watermark", "checkpoint", "retention", "idempotency"),
    *("Kafka", "Redis Streams", "Celery", "SQS", "FastAPI", "Django", "pydantic", "Docker"),
)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_people_search_for_is_on_a_page(word: str) -> None:
    pages = [path for path in DOCS.rglob("*.md") if path.parent.name not in ("design", "api")]

    assert any(word.lower() in path.read_text().lower() for path in pages)
