"""The versions of schemas over HTTP, for remote logs whose token is not for every topic.

Those of all topics are in one internal topic, which such a token does not reach. See design 0102.
"""

import contextlib
from uuid import UUID

import pyarrow as pa

from strandline.log import wire
from strandline.server.call import Call
from strandline.server.caller import Caller
from strandline.server.endpoint import Endpoint
from strandline.server.remote_call import StorePort, port_call
from strandline.server.tokens import TokenScope
from strandline.typed import SchemaConflictError
from strandline.typed.definition import defined
from strandline.typed.schemas import checked_schema, packed, unlike_evolution
from strandline.values import DroppedError
from strandline.values.batches import decode_schema


@port_call("schemas", wire.DoneReturn)
def list_store_schemas(call: Call, port: StorePort, given: wire.DoneReturn) -> wire.Message:
    """Return the later versions of the schemas of every topic that the caller may reach."""
    del given
    port.versions.catch_up(call.log.blocking)
    return wire.SchemasReturn(_visible(port, call.caller))


@port_call("add-schema", wire.AddSchemaCall)
def add_store_schema(call: Call, port: StorePort, given: wire.AddSchemaCall) -> wire.Message:
    """Add a version to the schema of a topic, unless the caller has not seen all of them."""
    call.caller.check(TokenScope.ADMIN)
    topic = port.topics.by_id(call.caller, given.topic_id).topic
    log, schema = call.log.blocking, checked_schema(decode_schema(given.schema))
    first = defined(log.describe_topic(topic)).schema
    while True:
        end = port.versions.catch_up(log)
        if sum(map(len, _visible(port, call.caller).values())) != given.expected:
            return wire.DoneReturn(False)
        newest = [first, *port.versions.known(topic)][-1]
        if wrong := unlike_evolution(schema, newest):
            raise SchemaConflictError(
                "this schema does not follow from the topic's", wrong, topic=topic.name
            )
        if port.versions.add(log, topic, schema, end):
            return wire.DoneReturn()


def _visible(port: StorePort, caller: Caller) -> dict[UUID, list[bytes]]:
    found = {}
    for topic_id, versions in port.versions.every().items():
        with contextlib.suppress(DroppedError):
            port.topics.by_id(caller, topic_id)
            # One that cannot be read must not be readable, or missing, there.
            found[topic_id] = [
                packed(each) if isinstance(each, pa.Schema) else b"" for each in versions
            ]
    return found


ENDPOINTS: tuple[Endpoint, ...] = (list_store_schemas, add_store_schema)
