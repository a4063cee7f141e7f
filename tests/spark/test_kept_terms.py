"""A checkpoint belongs to the job that it was begun with."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import strandline as sl
from strandline.spark import jobs
from strandline.spark.jobs.kept_terms import KeptTerms
from strandline.values import CorruptError, InvalidError


def derived(checkpoint: object, where: str = "", **terms: str | None) -> KeptTerms:
    given = {"topic": "orders", "target": "paid", "tenant": None, "where": where, **terms}
    return KeptTerms(str(checkpoint), "derive", **given)


def begin(checkpoint: Path) -> None:
    """Do what Spark does before its first batch."""
    (checkpoint / "offsets").mkdir()
    (checkpoint / "offsets" / "0").write_text("v1")


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_another_predicate_is_refused_and_both_are_named(tmp_path: Path, form: str) -> None:
    checkpoint = tmp_path / "jobs" / "paid"
    derived(form.format(checkpoint), "amount > 1").keep()
    begin(checkpoint)

    derived(form.format(checkpoint), " amount > 1 ").keep()
    with pytest.raises(InvalidError, match="another where") as caught:
        derived(form.format(checkpoint), "amount > 2").keep()

    assert (caught.value.fields["before"], caught.value.fields["now"]) == (
        "amount > 1",
        "amount > 2",
    )
    assert caught.value.fields["checkpoint"] == form.format(checkpoint)


@pytest.mark.parametrize("term", ["log", "topic", "target", "tenant", "select"])
def test_any_other_term_is_refused_as_well(tmp_path: Path, term: str) -> None:
    derived(tmp_path, log="one").keep()
    begin(tmp_path)

    with pytest.raises(InvalidError, match=f"another {term}"):
        derived(tmp_path, **{"log": "one", term: "other"}).keep()
    with pytest.raises(InvalidError, match="another job"):
        KeptTerms(str(tmp_path), "backfill", target="paid").keep()


def test_terms_may_change_until_the_first_batch_has_begun(tmp_path: Path) -> None:
    derived(tmp_path, "amount < 1").keep()
    derived(tmp_path, "amount > 1").keep()
    begin(tmp_path)

    with pytest.raises(InvalidError, match="another where"):
        derived(tmp_path, "amount < 1").keep()


def test_a_checkpoint_of_an_earlier_version_takes_the_terms_of_its_next_run(
    tmp_path: Path,
) -> None:
    begin(tmp_path)
    derived(tmp_path, "amount > 1").keep()

    with pytest.raises(InvalidError, match="another where"):
        derived(tmp_path).keep()


def test_terms_of_an_earlier_version_take_the_log_of_their_next_run(tmp_path: Path) -> None:
    derived(tmp_path).keep()
    begin(tmp_path)

    derived(tmp_path, log="one").keep()

    with pytest.raises(InvalidError, match="another log"):
        derived(tmp_path, log="other").keep()


def test_a_checkpoint_elsewhere_keeps_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    derived("s3://bucket/paid", "amount > 1").keep()
    derived("s3://bucket/paid").keep()

    assert not [*tmp_path.iterdir()]


def test_terms_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "_strandline").write_text("{")

    with pytest.raises(CorruptError, match="delete it"):
        derived(tmp_path).keep()


@pytest.mark.slow
@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_a_checkpoint_belongs_to_the_log_that_is_written(
    spark: SparkSession, log: Any, url: str, tmp_path: Path
) -> None:
    log.create_topic("orders")
    log.append("orders", sl.Event("k", {"n": 1}))
    (tmp_path / "n.json").write_text('{"n": 2}\n')
    others = [f"file:{tmp_path / name}" for name in ("one", "two")]
    for each in others:
        with sl.open(each) as other:
            other.create_topic("orders")
    derived: dict[str, Any] = {"checkpoint": tmp_path / "derived"}
    filled: dict[str, Any] = {"checkpoint": tmp_path / "filled", "file_format": "json"}
    filled["select"] = "'k' AS kind, to_json(struct(n)) AS payload"

    jobs.derive(spark, url, "orders", "orders", target_url=others[0], **derived)
    jobs.backfill(spark, tmp_path / "n.json", others[0], "orders", **filled)

    with sl.open(others[0]) as other:
        assert [record.payload["n"] for record in other.read("orders", 0, 0)] == [1, 2]
    with pytest.raises(InvalidError, match="another log"):
        jobs.derive(spark, url, "orders", "orders", target_url=others[1], **derived)
    with pytest.raises(InvalidError, match="another log"):
        jobs.backfill(spark, tmp_path / "n.json", others[1], "orders", **filled)
    with pytest.raises(InvalidError, match="from another one"):
        jobs.derive(spark, url, "orders", "orders", target_url=url, checkpoint=tmp_path / "same")
