"""Names of tenants."""

from typing import NewType

from strandline.values.names import check_tenant_name

Tenant = NewType("Tenant", str)
"""A checked tenant name. If a tenant may be None, None means global data."""


def parse_tenant(name: object) -> Tenant | None:
    """Return the tenant of this name, or None for None. InvalidError for a bad name."""
    return None if name is None else Tenant(check_tenant_name(name))
