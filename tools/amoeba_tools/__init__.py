"""Programs on the driver: benchmarks, soaks, replays, traces."""
