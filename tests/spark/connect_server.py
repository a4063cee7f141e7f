"""A Spark Connect server for tests: prints its address, and ends with its caller."""

import os
import sys
from typing import Any

from strandline.spark import local_session
from tests.spark_session import quick_java

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"


def main(folder: str) -> None:
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
    }
    spark = local_session(folder, java_options=quick_java(), settings=settings)
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 # Nothing else has the port.
    port = getattr(getattr(jvm, _SERVICE), "MODULE$").localPort()
    sys.stdout.write(f"sc://localhost:{port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
