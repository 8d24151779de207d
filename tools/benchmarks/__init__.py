"""Measurements of speed, each a program: python -m tools.benchmarks.NAME."""
