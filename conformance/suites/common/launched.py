"""A rank that a launcher starts: trains as a scenario does and leaves its proof. `launching.launch` runs it with -m."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from conformance.ranks.inside import shared_memory_op
from conformance.suites.common.launching import report
from conformance.suites.common.observing import prove, starter, tiny_config, tiny_model

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def main() -> None:
    """Train once. The last argument is the file with the setting; launchers may put others before it."""
    import deepspeed

    shared_memory_op.switch_off()
    papers = Path(sys.argv[-1])
    setting = pickle.loads(papers.read_bytes())
    told = {name: os.environ.get(name) for name in NAMES}
    arguments = sys.argv[1:-1]
    proof = prove(starter(setting)(model=tiny_model(), config=tiny_config())[0], setting)
    report(papers, proof["rank"], {"proof": proof, "told": told, "arguments": arguments})
    deepspeed.comm.destroy_process_group()


if __name__ == "__main__":
    main()
