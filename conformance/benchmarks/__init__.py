"""Measurements of speed, each a program: python -m conformance.benchmarks.NAME."""
