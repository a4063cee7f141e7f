"""A day of a shop, end to end: `make demo`. `DEMO_EVENTS=20000` scales it."""
