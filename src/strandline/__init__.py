"""A durable, replayable event log: append, subscribe, ask a view, run Spark over it."""
