"""Declarations of payloads as text, and where one that is wrong is wrong."""

from typing import Any

import pyarrow as pa
import pytest

from strandline.values import InvalidError
from strandline.values.payload_text import parse_payload_schema, shown_payload_text

GOOD: dict[str, pa.Schema] = {
    "amount BIGINT": pa.schema({"amount": pa.int64()}),
    "  a string ,b  Decimal( 20 , 2 )": pa.schema({"a": pa.string(), "b": pa.decimal128(20, 2)}),
    "c.d DATE, c.e.f TIMESTAMP, c.g VARIANT": pa.schema(
        {
            "c": pa.struct(
                {
                    "d": pa.date32(),
                    "e": pa.struct({"f": pa.timestamp("us", tz="UTC")}),
                    "g": pa.json_(),
                }
            )
        }
    ),
    "tags[] STRING, items[].sku INT, items[].on BOOLEAN": pa.schema(
        {
            "tags": pa.list_(pa.string()),
            "items": pa.list_(pa.struct({"sku": pa.int32(), "on": pa.bool_()})),
        }
    ),
    "`odd, name`.`x.y` TINYINT, größe DOUBLE, s SMALLINT": pa.schema(
        {
            "odd, name": pa.struct({"x.y": pa.int8()}),
            "größe": pa.float64(),
            "s": pa.int16(),
        }
    ),
}


@pytest.mark.parametrize("text", GOOD)
def test_a_text_declares_a_schema_and_a_schema_shows_its_text(text: str) -> None:
    schema = parse_payload_schema(text)
    shown = shown_payload_text(schema)

    assert schema == GOOD[text]
    assert shown is not None
    assert parse_payload_schema(shown) == schema


@pytest.mark.parametrize(
    ("text", "position", "near"),
    [
        ("", 0, []),
        ("amount", 6, []),
        ("amount BIGIN", 7, ["BIGINT"]),
        ("amount INTEGER", 7, ["INT"]),
        ("a INT, b VARCHAR", 9, ["STRING"]),
        ("a INT b INT", 6, []),
        ("a INT, ", 7, []),
        ("a. INT", 2, []),
        ("a DECIMAL", 2, ["DECIMAL(p,s)"]),
        ("a DECIMAL(39,2)", 2, []),
        ("a DECIMAL(2,3)", 2, []),
        ("a INT(3,2)", 2, ["INT"]),
        ("a INT, a STRING", 7, None),
        ("a.b INT, a STRING", 9, None),
        ("a STRING, a.b INT", 10, None),
        ("a[] STRING, a.b INT", 12, None),
    ],
)
def test_an_error_names_the_position_and_what_is_near(
    text: str, position: int, near: list[str] | None
) -> None:
    with pytest.raises(InvalidError) as raised:
        parse_payload_schema(text)

    assert raised.value.fields["position"] == position
    assert raised.value.fields.get("near") == near
    assert raised.value.fields["text"] == text


def test_a_map_has_no_text() -> None:
    assert shown_payload_text(pa.schema({"m": pa.map_(pa.string(), pa.int64())})) is None


@pytest.mark.parametrize("text", [None, 5, b"a INT", ["a INT"]])
def test_only_text_is_taken(text: Any) -> None:
    with pytest.raises(InvalidError):
        parse_payload_schema(text)
