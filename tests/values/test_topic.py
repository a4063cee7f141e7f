"""Topics and their settings: checked when made, and again when loaded."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.values import (
    InvalidError,
    Tenant,
    Topic,
    TopicSettings,
    ValueKind,
    sorted_metadata,
)

TOPIC_ID = UUID("018bcfe5-6800-7000-8000-000000000001")
COUNTS = st.none() | st.integers(1, 2**63 - 1)


@pytest.mark.parametrize("tenant", [None, Tenant("acme")])
@pytest.mark.parametrize("name", ["orders", "__strandline.segments"])
def test_a_topic_comes_back_from_its_json(name: str, tenant: Tenant | None) -> None:
    topic = Topic(name, TOPIC_ID, tenant)

    assert Topic.from_json(topic.to_json()) == topic


@pytest.mark.slow
@pytest.mark.parametrize("proof", [False, True])
@given(
    partitions=st.integers(1, 4096),
    value_kind=st.sampled_from(ValueKind),
    age_s=COUNTS,
    size=COUNTS,
)
def test_settings_come_back_from_their_json(
    *, partitions: int, value_kind: ValueKind, age_s: int | None, size: int | None, proof: bool
) -> None:
    settings = TopicSettings(
        partitions=partitions,
        value_kind=value_kind,
        retention_age_s=age_s,
        retention_bytes=size,
        proof=proof,
    )

    assert TopicSettings.from_json(settings.to_json()) == settings


def test_settings_stored_before_there_were_proofs_have_none() -> None:
    stored = {"version": 1, "partitions": 2, "value_kind": "bytes"}
    stored |= {"retention_age_s": None, "retention_bytes": 5}

    loaded = TopicSettings.from_json(json.dumps(stored).encode())

    assert loaded == TopicSettings(partitions=2, value_kind=ValueKind.BYTES, retention_bytes=5)
    assert not loaded.proof


def test_the_defaults_are_one_partition_of_events_kept_for_ever() -> None:
    assert TopicSettings() == TopicSettings(
        partitions=1, value_kind=ValueKind.EVENT, retention_age_s=None, retention_bytes=None
    )


BAD_SETTINGS: list[dict[str, Any]] = [
    {"partitions": 0},
    {"partitions": -1},
    {"partitions": 4097},
    {"partitions": 1.5},
    {"partitions": True},
    {"partitions": "4"},
    {"partitions": None},
    {"value_kind": "json"},
    {"value_kind": None},
    {"retention_age_s": 0},
    {"retention_age_s": -5},
    {"retention_age_s": 2**63},
    {"retention_bytes": 0},
    {"retention_bytes": "1 GB"},
    {"proof": 1},
    {"proof": None},
]


@pytest.mark.parametrize("bad", BAD_SETTINGS)
def test_bad_settings_are_refused_when_made(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        TopicSettings(**bad)


@pytest.mark.parametrize("bad", [*BAD_SETTINGS, {"colour": "red"}])
def test_we15_bad_settings_are_refused_when_loaded(bad: dict[str, Any]) -> None:
    stored = json.loads(TopicSettings().to_json()) | bad

    with pytest.raises(InvalidError):
        TopicSettings.from_json(json.dumps(stored).encode())


@pytest.mark.parametrize(
    "bad",
    [
        {"name": "../x"},
        {"name": ""},
        {"name": 7},
        {"tenant": ""},
        {"tenant": "a/b"},
        {"id": "not-a-uuid"},
        {"id": "00000000-0000-4000-8000-000000000000"},
        {"extra": 1},
    ],
)
def test_we15_a_bad_topic_is_refused_when_loaded(bad: dict[str, Any]) -> None:
    stored = json.loads(Topic("orders", TOPIC_ID).to_json()) | bad

    with pytest.raises(InvalidError):
        Topic.from_json(json.dumps(stored).encode())


@pytest.mark.parametrize("bad_id", [UUID(int=1), str(TOPIC_ID), None])
def test_a_topic_id_is_a_uuid_of_version_7(bad_id: Any) -> None:
    with pytest.raises(InvalidError, match="version 7"):
        Topic("orders", bad_id)


@pytest.mark.parametrize("load", [Topic.from_json, TopicSettings.from_json])
@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'{"version":"1"}', b"[" * 100_000, b'{"version":1}']
)
def test_bytes_of_something_else_are_refused(load: Any, data: bytes) -> None:
    with pytest.raises(InvalidError, match="not what strandline stores"):
        load(data)


@pytest.mark.parametrize("load", [Topic.from_json, TopicSettings.from_json])
def test_a_later_version_asks_for_an_upgrade(load: Any) -> None:
    with pytest.raises(InvalidError, match="upgrade to read it: version=2"):
        load(b'{"version":2,"shape":"unknown"}')


def test_settings_keep_a_schema_and_metadata_sorted_by_key() -> None:
    settings = TopicSettings(
        value_kind=ValueKind.BATCH,
        schema=b"\x00arrow",
        metadata=sorted_metadata({"owner": "köln", "a": ""}),
    )

    assert settings.metadata == (("a", ""), ("owner", "köln"))
    assert TopicSettings.from_json(settings.to_json()) == settings


def test_a_topic_of_bytes_has_no_schema() -> None:
    with pytest.raises(InvalidError, match="plain bytes"):
        TopicSettings(value_kind=ValueKind.BYTES, schema=b"arrow")


@pytest.mark.parametrize("bad", [["a"], {1: "a"}, {"a": 1}, {"": "a"}, {"a": "b" * 70_000}])
def test_metadata_is_a_bounded_mapping_of_texts(bad: Any) -> None:
    with pytest.raises(InvalidError):
        sorted_metadata(bad)
