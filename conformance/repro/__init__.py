"""Scripts that show by themselves what a cell shows: `python -m conformance repro CELL`."""
