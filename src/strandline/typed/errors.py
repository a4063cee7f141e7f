"""Errors of typed topics, besides those of `values`.

InvalidError
├── SchemaMismatchError   this batch is of no registered version; .differences
├── TenantMismatchError   this topic is another's; .topic, .topic_tenant, .publish_tenant
└── UnsupportedTypeError  this column has no place in a typed topic; .column, .reason
ConflictError
└── SchemaConflictError   the topic is registered otherwise; .differences
"""

from collections.abc import Sequence

from strandline.values import ConflictError, InvalidError, Tenant


class SchemaConflictError(ConflictError):
    """The topic's registration is incompatible with this schema.

    See docs/reference/errors/SchemaConflictError.md.
    """

    differences: tuple[str, ...]
    """The differences, one sentence for each field."""

    def __init__(self, message: str, differences: Sequence[str], **fields: object) -> None:
        super().__init__(f"{message} ({'; '.join(differences)})", **fields)
        self.differences = tuple(differences)


class SchemaMismatchError(InvalidError):
    """The batch matches no registered version of the topic's schema; nothing is stored.

    See docs/reference/errors/SchemaMismatchError.md.
    """

    differences: tuple[str, ...]
    """The differences from the newest version, one sentence for each field."""

    def __init__(self, message: str, differences: Sequence[str], **fields: object) -> None:
        super().__init__(f"{message} ({'; '.join(differences)})", **fields)
        self.differences = tuple(differences)


class TenantMismatchError(InvalidError):
    """The topic is pinned to another tenant; nothing is stored.

    See docs/reference/errors/TenantMismatchError.md.
    """

    topic: str
    topic_tenant: Tenant | None
    publish_tenant: Tenant | None

    def __init__(
        self, topic: str, topic_tenant: Tenant | None, publish_tenant: Tenant | None
    ) -> None:
        super().__init__(
            "this topic is pinned to a tenant, publish in that tenant's scope",
            topic=topic,
            topic_tenant=topic_tenant,
            publish_tenant=publish_tenant,
        )
        self.topic = topic
        self.topic_tenant = topic_tenant
        self.publish_tenant = publish_tenant


class UnsupportedTypeError(InvalidError):
    """A typed topic cannot have this column.

    See docs/reference/errors/UnsupportedTypeError.md.
    """

    column: str
    reason: str

    def __init__(self, column: str, reason: str, **fields: object) -> None:
        super().__init__(
            f"a typed topic cannot have this column: {reason}", column=column, **fields
        )
        self.column = column
        self.reason = reason
