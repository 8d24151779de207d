"""Windows lanes without a Windows machine: Windows' own Python and wheels under Wine, on Linux.

Wine is not Windows' kernel: file locking, deletion of open files, signals and speed may differ. Records made here say
so (`host.wine`), and nothing here makes a Windows machine unnecessary.

It needs `wine64` (8.0 is what it was tried with) and a folder with a Windows CPython 3.11; from these `make` builds an
environment, `run` runs a program in it, and `examine` tells whether it works:

    python -m tools.wine make --python FOLDER --into DEST
    python -m tools.wine run --env DEST -- python -m pytest --lane windows_gloo
    python -m tools.wine doctor --env DEST
"""
