"""Declared payloads: names and types for predicates, checked when they are parsed."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import strandline as sl
from strandline.predicates import PredicateError, event_columns, parse_predicate
from strandline.values import InvalidError

DECLARED = pa.schema(
    {
        "amount": pa.int64(),
        "price": pa.decimal128(10, 2),
        "at": pa.timestamp("us", tz="UTC"),
        "customer": pa.struct({"country": pa.string(), "vip": pa.bool_()}),
        "items": pa.list_(pa.struct({"sku": pa.string()})),
        "labels": pa.map_(pa.string(), pa.string()),
        "any": pa.json_(),
    }
)
COLUMNS = event_columns(DECLARED)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("payload.amuont > 1", 8, "the nearest is payload.amount"),
        ("payload.Amount > 1", 8, "the nearest is payload.amount"),
        ("payload.customer.county = 'DE'", 17, "the nearest is payload.customer.country"),
        ("payload.zzz = 1", 8, "there are: amount, price, at, customer, items, labels, any"),
        ("payload.items.sku = 'a'", 14, "declared as an array"),
        ("payload.customer[0] = 'a'", 17, "declared as an object"),
        ("payload.amount.x = 1", 15, "declared as BIGINT"),
        ("payload.amount LIKE 'a%'", 0, "this is BIGINT"),
        ("payload.amount AND kind = 'a'", 0, "a BOOLEAN belongs here"),
    ],
)
def test_a_predicate_that_does_not_fit_the_declaration_names_the_place(
    text: str, position: int, message: str
) -> None:
    with pytest.raises(PredicateError, match=message) as caught:
        parse_predicate(text, COLUMNS)

    assert caught.value.position == position


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("payload.amount = 9007199254740993",
         "TRY_CAST(payload.amount AS BIGINT) = 9007199254740993"),
        ("payload.amount IS NULL", "TRY_CAST(payload.amount AS BIGINT) IS NULL"),
        ("payload.price > 1.005", "TRY_CAST(payload.price AS DECIMAL(10,2)) > 1.005"),
        ("payload.customer.vip", "TRY_CAST(payload.customer.vip AS BOOLEAN)"),
        ("payload.items[0].sku = 'a'", "payload.items[0].sku = 'a'"),
        ("payload.labels['any name'] = 'x'", "payload.labels['any name'] = 'x'"),
        ("payload.any.thing[3] = 5", "payload.any.thing[3] = 5"),
        ("payload.customer IS NULL", "payload.customer IS NULL"),
        ("payload.at > TIMESTAMP '2026-01-01 00:00:00'",
         "TRY_CAST(payload.at AS TIMESTAMP) > TIMESTAMP '2026-01-01 00:00:00'"),
    ],
)  # fmt: skip
def test_a_declared_path_means_a_try_cast_to_its_type(text: str, same: str) -> None:
    payloads = [
        '{"amount": 9007199254740993, "price": 1.01, "customer": {"vip": true}}',
        '{"amount": 9007199254740992, "price": "2", "customer": {"vip": "no"}, "any": {}}',
        '{"amount": "many", "items": [{"sku": "a"}], "labels": {"any name": "x"}}',
        '{"at": "2026-02-01T00:00:00Z", "any": {"thing": [0, 1, 2, "5"]}}',
    ]
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(payloads))
    declared = parse_predicate(text, COLUMNS)
    plain = parse_predicate(same, event_columns())
    batch = pa.RecordBatch.from_arrays([texts], schema=pa.schema([COLUMNS.field("payload")]))
    narrow = pickle.loads(pickle.dumps(declared))

    found = [
        parse_predicate(each.text, pa.schema([schema.field("payload")])).matches(batch)
        for each, schema in ((declared, COLUMNS), (plain, event_columns()))
    ]

    assert found[0].equals(found[1])
    assert found[0].true_count
    assert narrow.spark_sql == declared.spark_sql


def test_a_declared_type_is_written_out_for_spark() -> None:
    found = parse_predicate("payload.amount > 5 AND payload.customer.country = 'DE'", COLUMNS)

    assert found.spark_sql == (
        "try_variant_get(try_parse_json(`payload`), '$.amount', 'BIGINT') > 5 AND "
        "try_variant_get(try_parse_json(`payload`), '$.customer.country', 'STRING') = 'DE'"
    )


@pytest.mark.parametrize("scheme", ["memory:", "file:{}/log", "sqlite:{}/log.db"])
def test_every_reader_of_a_topic_knows_what_is_declared(scheme: str, tmp_path: Path) -> None:
    with sl.open(scheme.format(tmp_path)) as log:
        log.create_topic("orders", payload_schema=DECLARED)
        log.append("orders", sl.Event("made", {"amount": "many"}))
        log.append("orders", sl.Event("made", {"amount": 7}))

        with log.subscribe("orders", where="payload.amount IS NOT NULL") as found:
            assert next(found).offset == 1
        scoped = list(log.scope().replay("orders", where="payload.amount IS NOT NULL"))
        assert [each.offset for each in scoped] == [1]
        for reader in (log.subscribe, log.scope().subscribe, log.scope().replay):
            with pytest.raises(PredicateError, match="the nearest is payload"):
                reader("orders", where="payload.amuont > 1")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"amount": pa.int64()}, "is a pyarrow.Schema"),
        (pa.schema([]), "at least one field"),
        (pa.schema({"a": pa.struct({"b": pa.uint32()})}), "declare int64"),
        (pa.schema({"a": pa.list_(pa.binary())}), "declare string, bool"),
        (pa.schema({"a": pa.timestamp("us")}), "timestamp"),
        (pa.schema({"a": pa.map_(pa.int32(), pa.string())}), "map from string"),
        (pa.schema([pa.field("a", pa.int8()), pa.field("a", pa.int8())]), "each field once"),
    ],
)
def test_a_declaration_that_no_payload_can_meet_is_refused(schema: object, message: str) -> None:
    with sl.open("memory:") as log:
        with pytest.raises(InvalidError, match=message):
            log.create_topic("orders", payload_schema=schema)

        assert not log.topics()
