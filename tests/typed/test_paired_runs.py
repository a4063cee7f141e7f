"""T1: what a tenant can observe does not depend on what another does."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import Log
from strandline.typed.catalogue import Catalogue
from strandline.typed.delivered import DeliveredBatch, VisibleRows
from strandline.typed.readers import ConsumerProgress, Readers
from strandline.values import Tenant, Topic
from strandline.values.record import with_value
from tests.typed.paired_runs import STEPS, Seen, difference, life

pytestmark = pytest.mark.slow

#: Many more are in torture. The same ones each time, since these have found something.
SEEDS = (*range(10, 13), *range(30, 33))


def test_a_tenant_observes_nothing_of_another() -> None:
    for seed in (*SEEDS, int.from_bytes(os.urandom(4), "big")):
        assert not (found := difference("memory:", seed, STEPS)), found


@pytest.mark.parametrize("backend", ["file", "sqlite"])
def test_a_tenant_observes_nothing_of_another_on_disk(backend: str, tmp_path: Path) -> None:
    for seed in range(2):
        url, alone = (f"{backend}:{tmp_path / f'{each}{seed}'}" for each in ("both", "alone"))
        assert not (found := difference(url, seed, 120, alone)), found


def test_the_runs_see_enough_to_part() -> None:
    seen: list[Seen] = []
    for seed in range(4):
        seen += life("memory:", seed, STEPS, beside=True)

    done = {act: [each for each in seen if each[0] == act and len(each) > 1] for act, *_ in seen}
    assert min(len(found) for found in done.values()) > 10, {k: len(v) for k, v in done.items()}
    errors = {str(each[1]) for each in seen if len(each) > 1 and str(each[1]).endswith("Error")}
    assert errors >= {"InvalidError", "SchemaConflictError", "SchemaMismatchError", "ConflictError"}
    assert "PredicateEvalError" in errors


# --- leaks, planted ---


def caught() -> str:
    """Return the first difference of a few seeds."""
    return next(filter(None, (difference("memory:", seed, STEPS) for seed in range(6))), "")


def test_a_near_match_of_anothers_name_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = Catalogue._unknown  # noqa: SLF001

    def telling(self: Any, wanted: Any) -> sl.InvalidError:
        near: Any = unknown(self, wanted).fields["near"]
        others = [each.name for each in self._log.topics(tenant="bob")]
        return sl.InvalidError("there is no such topic", near=[*near, *others])

    monkeypatch.setattr(Catalogue, "_unknown", telling)

    assert "look_up" in caught() or "publish" in caught() or "replay" in caught()


def test_a_consumer_list_of_all_tenants_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Readers.progress

    def telling(
        self: Readers, log: Log, topic: Topic, tenant: Tenant | None
    ) -> Sequence[ConsumerProgress]:
        others = progress(self, log, topic, Tenant("bob")) if topic.tenant is None else ()
        return [*progress(self, log, topic, tenant), *others]

    monkeypatch.setattr(Readers, "progress", telling)

    assert "consumers" in caught()


def test_producers_that_all_tenants_share_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = sl.Scope.publish

    def telling(self: sl.Scope, name: Any, value: Any, **options: Any) -> Any:
        known: set[Any] = self._log.__dict__.setdefault("taken", set())
        taken = (str(name), options.get("producer"), options.get("sequence"))
        if options.get("producer") and taken in known:
            raise sl.ConflictError("this sequence was used")
        receipt = publish(self, name, value, **options)
        known.add(taken)
        return receipt

    monkeypatch.setattr(sl.Scope, "publish", telling)

    assert "this sequence was used" in caught()


def test_a_count_of_what_is_hidden_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    of = VisibleRows.of

    def telling(self: VisibleRows, record: sl.Record) -> Any:
        found = of(self, record)
        if found is None and isinstance(record.value, pa.RecordBatch):
            return DeliveredBatch(with_value(record, record.value.slice(0, 0)), pa.array([]))
        return found

    monkeypatch.setattr(VisibleRows, "of", telling)

    assert caught()


def test_an_error_that_knows_anothers_topic_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    register = sl.Scope.register

    def telling(self: sl.Scope, name: str, *args: Any, **options: Any) -> Any:
        others = self._log.topics(tenant="bob")
        if self.tenant == "alice" and name in [each.name for each in others]:
            raise sl.SchemaConflictError("this name is taken", [])
        return register(self, name, *args, **options)

    monkeypatch.setattr(sl.Scope, "register", telling)

    assert "this name is taken" in caught()


def test_a_definition_that_reveals_whether_anothers_topic_exists_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = Catalogue.find

    def telling(self: Catalogue, name: Any) -> Any:
        if isinstance(name, Topic):
            self._log.topic(name)
        return find(self, name)

    monkeypatch.setattr(Catalogue, "find", telling)

    assert "meddle" in caught()


def test_a_predicate_that_meets_rows_of_another_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    of = VisibleRows.of

    def telling(self: Any, record: sl.Record) -> Any:
        if isinstance(record.value, pa.RecordBatch):
            self._rows_of(record, record.value)
        return of(self, record)

    monkeypatch.setattr(VisibleRows, "of", telling)

    assert "PredicateEvalError" in caught()
