"""Which release of a package changed a cell's verdict: `python -m tools.bisect CELL --good V --bad V`."""
