"""What the ranks of test_mpi_deaths.py run: one dies, the others wait for it. Usage: dying_rank.py HOW"""

import ctypes
import os
import signal
import sys
import time

from mpi4py import MPI

if MPI.COMM_WORLD.rank == 1:
    how = sys.argv[1]
    time.sleep(0.2)
    if how == "raise":
        raise ValueError("as asked")
    if how == "exit":
        sys.exit(3)
    if how == "vanish":
        os._exit(3)
    if how == "abort":
        MPI.COMM_WORLD.Abort(5)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "segfault":
        ctypes.string_at(0)
if MPI.COMM_WORLD.rank == 2:
    time.sleep(60)
MPI.COMM_WORLD.Barrier()
