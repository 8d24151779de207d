"""Programs beside the harness, in the checkout only: Wine, bisect, ops, newer pins, benchmarks."""
