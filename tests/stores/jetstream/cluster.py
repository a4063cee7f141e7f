"""Three real NATS servers that are one cluster."""

import contextlib
import socket

from tests.stores.clusters import Cluster
from tests.stores.jetstream.server import NatsServer

NODES = 3


class NatsCluster(Cluster[NatsServer]):
    """Three servers, each of which can be killed, stopped and started again."""

    def __init__(self) -> None:
        ports = _free_ports(2 * NODES)
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports[:NODES])
        super().__init__()
        try:
            for number in range(NODES):
                more = f"""
                    server_name: "n{number}"
                    max_payload: 33554432
                    cluster {{
                        name: "lab"
                        listen: "127.0.0.1:{ports[number]}"
                        routes: [{routes}]
                    }}
                """
                self.nodes.append(NatsServer(more=more, port=ports[NODES + number], waits=False))
            self.start()
        except BaseException:
            self.close()
            raise

    def url(self, log: str) -> str:
        """Return where a log is, with all servers."""
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.nodes)
        return f"nats://app:secret@{hosts}/{log}?replicas=3"

    @property
    def system_url(self) -> str:
        """Where the system account is reached."""
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.nodes)
        return f"nats://sys:hidden@{hosts}"


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]
