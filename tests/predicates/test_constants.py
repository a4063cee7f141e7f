"""Parts of a predicate that are the same for every row."""

import pyarrow as pa
import pytest

from strandline.predicates import UnsupportedPredicateError, parse_predicate


@pytest.mark.parametrize("text", ["CAST(128 AS TINYINT) IS NOT NULL", "1 / 0 IS NULL OR n > 1"])
def test_a_constant_that_fails_is_refused_where_spark_does_not_compute_it(text: str) -> None:
    with pytest.raises(UnsupportedPredicateError, match="Spark may leave out this"):
        parse_predicate(text, pa.schema([("n", pa.int32())]))
