"""Runs one pipeline, in its own process: `python -m strandline.spark.pipelines.program`.

Takes an `Order` as JSON, and writes events as lines of JSON. It replaces Spark's own program,
whose problems are listed in design 0053.
"""

import os
import pathlib
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from strandline.clock import SystemClock
from strandline.locks import start_thread
from strandline.spark.pipelines.order import Order, OutputLine
from strandline.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMPLETED: Final = "Run is COMPLETED"
_HOST: Final = "127.0.0.1"
_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"


def main(order: Order) -> None:
    """Run the pipeline, report its result, and end all processes that hold the catalogue."""
    classic = _session(order)
    try:
        _run(classic, order)
    finally:
        _stop(classic)


def _run(classic: "SparkSession", order: Order) -> None:
    if order.database:
        names = [each for each in (order.catalog, order.database) if each]
        quoted = ".".join(f"`{name}`" for name in names)
        classic.sql(f"CREATE DATABASE IF NOT EXISTS {quoted}")
    completed = False
    try:
        for message in _messages(_connected(classic), order):
            _emit("event", message)
            completed = completed or message.startswith(_COMPLETED)
    except Exception as error:  # noqa: BLE001 # Whatever Spark raises goes to the caller.
        # Ignored once the run is complete: Spark raises errors for Python sources afterwards.
        if not completed:
            _emit("failed", _error_text(error))
            return
    if completed:
        _emit("completed", "")
    else:
        _emit("failed", "the run ended without saying how")


def _session(order: Order) -> "SparkSession":
    metastore = os.path.join(order.folder, "metastore")
    own = {
        # Keeps tables for the next run.
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={metastore};create=true"
        ),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": _HOST,
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
        "spark.sql.connect.serverStacktrace.enabled": "false",
    }
    settings = {**own, **order.configuration}
    # Without it every user of this machine could use the server.
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = SystemClock().random_bytes(32).hex()
    return local_session(
        order.folder, name="strandline pipeline", master=order.master, settings=settings
    )


def _connected(classic: "SparkSession") -> "SparkSession":
    """Return a session of the server that this process has just started."""
    from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415 # Takes long.

    jvm: Any = classic.sparkContext._jvm  # noqa: SLF001 # Nothing else has the port.
    service = getattr(getattr(jvm, _SERVICE), "MODULE$")
    # So that `SparkSession.active()` in definitions returns the session of the server.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    remote: Any = SparkSession.builder.remote(f"sc://localhost:{service.localPort()}")
    found: SparkSession = remote.getOrCreate()
    return found  # type: ignore[return-value] # Spark has two classes for one thing.


def _messages(spark: "SparkSession", order: Order) -> Iterable[str]:
    """Run the pipeline, and yield Spark's events."""
    from pyspark.pipelines import cli  # noqa: PLC0415 # Takes long, as the others.
    from pyspark.pipelines import spark_connect_graph_element_registry as registries  # noqa: PLC0415
    from pyspark.pipelines import spark_connect_pipeline as server  # noqa: PLC0415

    path = pathlib.Path(order.spec)  # noqa: TID251 # Spark's own functions take no text.
    graph = server.create_dataflow_graph(
        spark, default_catalog=order.catalog, default_database=order.database, sql_conf={}
    )
    registry = registries.SparkConnectGraphElementRegistry(spark, graph)
    cli.register_definitions(path, registry, cli.load_pipeline_spec(path), spark, graph)
    for result in server.start_run(
        spark,
        graph,
        full_refresh=[],
        full_refresh_all=order.full_refresh,
        refresh=[],
        dry=order.dry_run,
        storage=order.storage,
    ):
        event = result.get("pipeline_event_result")
        if event is not None:
            yield event.event.message


def _error_text(error: Exception) -> str:
    """Return an error as text, with its class if it is not an error of Spark."""
    if type(error).__module__.startswith("pyspark."):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _stop(classic: "SparkSession") -> None:
    gateway: Any = classic.sparkContext._gateway  # noqa: SLF001 # Nothing else ends the Java.
    classic.sparkContext.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _end_with_caller() -> None:
    """End this process and its Java when the parent process has ended."""
    sys.stdin.buffer.read()
    os._exit(1)


def _emit(what: Literal["event", "completed", "failed"], text: str) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(OutputLine(what, text)) + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    start_thread(threading.Thread(target=_end_with_caller, daemon=True))
    main(msgspec.json.decode(sys.argv[1], type=Order))
    # Threads of the server's client would keep the process alive.
    os._exit(0)
