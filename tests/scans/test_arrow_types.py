"""What we declare of pyarrow's classes, which have no types, is there."""

import ast
import inspect
from types import ModuleType

import pytest
from pyarrow import dataset, flight

from strandline.scans import arrow_dataset
from strandline.server.flight import arrow_server


@pytest.mark.parametrize(
    ("module", "name", "base"),
    [
        (arrow_dataset, "ArrowDataset", dataset.InMemoryDataset),
        (arrow_server, "ArrowFlightServer", flight.FlightServerBase),
        (arrow_server, "ArrowMiddleware", flight.ServerMiddleware),
        (arrow_server, "ArrowMiddlewareFactory", flight.ServerMiddlewareFactory),
    ],
)
def test_what_is_declared_is_there(module: ModuleType, name: str, base: type) -> None:
    tree = ast.walk(ast.parse(inspect.getsource(module)))
    (declared,) = (each for each in tree if isinstance(each, ast.ClassDef) and each.name == name)
    methods = {each.name for each in declared.body if isinstance(each, ast.FunctionDef)}

    assert getattr(module, name) is base
    assert methods <= set(dir(base))
