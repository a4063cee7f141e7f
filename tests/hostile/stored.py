"""What users have stored in a log, to compare: not how old it is, nor who reads it now."""

import strandline as sl


def content(log: sl.Log) -> object:
    """Return everything that is stored in a log."""
    found = []
    for tenant in (None, *log.tenants()):
        for internal in (False, True):
            for topic in log.topics(tenant=tenant, internal=internal):
                described = log.describe_topic(topic)
                cursors = [
                    (each.consumer, each.tenant, each.partition, each.cursor)
                    for each in log.consumers(topic)
                ]
                found.append((topic, described.settings, described.marks, cursors))
    return found
