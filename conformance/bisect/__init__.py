"""Which release of a package changed a cell's verdict: `python -m conformance.bisect CELL --good V --bad V`."""
