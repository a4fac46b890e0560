"""Where a fabric's objects tell what has happened: queues, counters, and what waits for them."""
