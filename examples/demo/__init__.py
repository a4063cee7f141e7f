"""A day of a shop, end to end: `make demo`. `DEMO_EVENTS=20000` scales it.

`DEMO_URL=postgresql://…` has the log there, which must have no topics yet.
"""
