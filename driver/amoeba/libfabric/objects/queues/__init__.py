"""Events of a fabric's objects: queues, counters, and waiting for them."""
