"""A checkpoint belongs to the job that it was begun with."""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize("term", ["topic", "target", "tenant", "select"])
def test_any_other_term_is_refused_as_well(tmp_path: Path, term: str) -> None:
    derived(tmp_path).keep()
    begin(tmp_path)

    with pytest.raises(InvalidError, match=f"another {term}"):
        derived(tmp_path, **{term: "other"}).keep()
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


def test_a_checkpoint_elsewhere_keeps_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    derived("s3://bucket/paid", "amount > 1").keep()
    derived("s3://bucket/paid").keep()

    assert not [*tmp_path.iterdir()]


def test_terms_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "_strandline").write_text("{")

    with pytest.raises(CorruptError, match="delete it"):
        derived(tmp_path).keep()
