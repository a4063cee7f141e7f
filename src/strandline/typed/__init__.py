"""Typed topics: registered Arrow schemas, and scopes that keep tenants apart.

Promises: a batch in a typed topic matches a registered version of its schema exactly, and
Parquet and Spark can represent every value in it. What one tenant can observe does not depend
on another's data: completely so on a topic of its own; on one that tenants share, except for
positions, lag and timing.

Does not protect anything from code that holds the log itself: a log is an unscoped
administrator, and sees all tenants.
"""

from strandline.typed.async_scope import AsyncScope
from strandline.typed.async_subscription import AsyncScopedSubscription
from strandline.typed.catalogue import RETENTION_KEY, AnyTopic
from strandline.typed.definition import TopicDefinition
from strandline.typed.delivered import Delivered, DeliveredBatch
from strandline.typed.errors import (
    SchemaConflictError,
    SchemaMismatchError,
    TenantMismatchError,
    UnsupportedTypeError,
)
from strandline.typed.readers import ConsumerProgress
from strandline.typed.scope import Scope, scope_of
from strandline.typed.spark_types import SparkType, spark_batch, spark_ddl, spark_schema, spark_type
from strandline.typed.subscription import ScopedSubscription
from strandline.typed.versions import definition_of

__all__ = [
    "RETENTION_KEY",
    "AnyTopic",
    "AsyncScope",
    "AsyncScopedSubscription",
    "ConsumerProgress",
    "Delivered",
    "DeliveredBatch",
    "SchemaConflictError",
    "SchemaMismatchError",
    "Scope",
    "ScopedSubscription",
    "SparkType",
    "TenantMismatchError",
    "TopicDefinition",
    "UnsupportedTypeError",
    "definition_of",
    "scope_of",
    "spark_batch",
    "spark_ddl",
    "spark_schema",
    "spark_type",
]
