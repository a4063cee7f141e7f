"""The attributes that we declare for pyarrow's untyped classes exist."""

import ast
import inspect
from types import ModuleType

import pytest
from pyarrow import dataset, flight

from strandline.scans import dataset as scans_dataset
from strandline.server.flight import answers


@pytest.mark.parametrize(
    ("module", "name", "base"),
    [
        (scans_dataset, "ArrowDataset", dataset.InMemoryDataset),
        (answers, "ArrowFlightServer", flight.FlightServerBase),
        (answers, "ArrowMiddleware", flight.ServerMiddleware),
        (answers, "ArrowMiddlewareFactory", flight.ServerMiddlewareFactory),
    ],
)
def test_what_is_declared_is_there(module: ModuleType, name: str, base: type) -> None:
    tree = ast.walk(ast.parse(inspect.getsource(module)))
    (declared,) = (each for each in tree if isinstance(each, ast.ClassDef) and each.name == name)
    methods = {each.name for each in declared.body if isinstance(each, ast.FunctionDef)}

    assert getattr(module, name) is base
    assert methods <= set(dir(base))
