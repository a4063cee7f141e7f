"""The specification of a pipeline, a YAML file."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from strandline.io import SystemIo
from strandline.spark.file_paths import unsafe_characters
from strandline.values import InvalidError
from strandline.values.extras import needing

NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")


@dataclass(frozen=True, slots=True)
class Specification:
    """The parts that a run needs before Spark reads the file."""

    path: str
    catalog: str | None
    database: str | None
    storage: str
    configuration: Mapping[str, str]


def check_place(path: str) -> None:
    """Raise InvalidError for a path, or URL, that Spark's pipelines would misread."""
    if refused := unsafe_characters(path):
        raise InvalidError(
            "Spark's pipelines misread some characters of this path, choose one of letters,"
            " digits and _ - . ~ ! $ & ' ( ) + = @",
            path=path,
            refused=refused,
        )


def load_specification(folder: str) -> Specification:
    """Return the folder's specification; InvalidError if it has none or it is invalid."""
    io = SystemIo()
    paths = [os.path.join(os.path.abspath(folder), name) for name in NAMES]
    found = [path for path in paths if io.exists(path)]
    if len(found) != 1:
        raise InvalidError(
            f"a pipeline's folder has one {NAMES[0]}; `strandline pipeline init` writes one",
            folder=folder,
            found=found,
        )
    check_place(os.path.dirname(found[0]))
    spec = _decoded(io, found[0])
    try:
        configuration = dict(spec.get("configuration") or {})
        storage = spec["storage"]
        check_place(storage)
        return Specification(
            path=found[0],
            catalog=spec.get("catalog"),
            database=spec.get("database", spec.get("schema")),
            storage=storage,
            configuration={str(name): str(value) for name, value in configuration.items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidError(
            "this YAML describes no pipeline, it needs name and storage",
            path=found[0],
            reason=repr(error),
        ) from error


def _decoded(io: SystemIo, path: str) -> Any:
    with needing("PyYAML", "spark"):
        import yaml  # type: ignore[import-untyped] # noqa: PLC0415 # Comes with the extra.
    fd = io.open(path, "read")
    try:
        text = io.pread(fd, io.size(fd), 0)
    finally:
        io.close(fd)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidError("this is no YAML", path=path, reason=str(error)) from error
