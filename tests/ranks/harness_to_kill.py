"""A harness in the middle of a job whose ranks have started processes: `harness_to_kill.py MODE FOLDER kill|exit`.

With `exit` it leaves without closing its pool once the ranks have started theirs.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conformance.model.setting import Setting
from conformance.ranks import Job, open_pool


def main() -> None:
    mode, folder, way = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    setting = Setting({"then": "hang"}, None, 2, "env", "gloo", "cpu", "bare", folder)
    pool = open_pool(mode=mode, preload=("json",))
    if way == "exit":
        threading.Thread(target=leave_when_started, args=(folder,), daemon=True).start()
    pool.run(Job("planted/leave_children", "tests.ranks.rank_scenarios:leave_children", setting, deadline=300.0))


def leave_when_started(folder: Path) -> None:
    while not all((folder / f"left{rank}.txt").exists() for rank in range(2)):
        time.sleep(0.05)
    time.sleep(1.0)
    os._exit(3)


if __name__ == "__main__":
    main()
