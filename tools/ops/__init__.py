"""Building DeepSpeed's compiled ops ahead of a run: `python -m tools.ops`."""
