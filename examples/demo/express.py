"""A trigger with a predicate: express orders get their parcel label at once."""

import strandline as sl
from examples.demo.plan import EXPRESS, SHOP

NAME = "express-desk"


def express_desk(log: sl.Log) -> sl.Triggers:
    """Return a runner that makes a label for each express order; broken ones are dead-lettered."""
    triggers = sl.Triggers(log)

    @triggers.on(
        SHOP,
        where="kind = 'order.placed' AND headers['service'] = 'express'",
        name=NAME,
        retry=[0.0],
        concurrency=8,
    )
    def label(record: sl.Record) -> None:
        order = record.payload
        if not isinstance(order["cents"], int):
            raise TypeError(f"an order without a price: {order['cents']!r}")
        # A function may be called again after a crash: the identity keeps it to one label.
        log.append(
            EXPRESS,
            sl.Event("label.printed", {"id": order["id"]}, key=record.key),
            idempotency_key=order["id"],
        )

    return triggers
