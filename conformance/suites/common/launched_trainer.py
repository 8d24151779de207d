"""A rank that a launcher starts: Trainer resumes from the last checkpoint, if any. `launching.launch` runs it."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

from conformance.ranks.inside import shared_memory_op
from conformance.suites.common.launching import report


def main() -> None:
    """Train; kill this process after some steps where the setting says so, and it is the last rank."""
    import torch
    from pytorch_lightning.callbacks import Callback

    from conformance.suites.common import trainers, training
    from conformance.suites.common.resuming import BEFORE, question
    from conformance.suites.lightning import saver

    shared_memory_op.switch_off()
    torch.set_num_threads(1)
    papers = Path(sys.argv[-1])
    setting = pickle.loads(papers.read_bytes())
    asked = question({**setting.parameters, "world": setting.world})

    class Kill(Callback):  # type: ignore[misc]
        def on_train_batch_start(self, running: Any, *_: Any) -> None:
            if setting["kills"] and running.global_step == BEFORE and running.global_rank == setting.world - 1:
                os._exit(9)

    running = trainers.trainer(
        setting,
        asked,
        trainers.config(asked, setting["stage"]),
        enable_checkpointing=True,
        callbacks=[Kill(), saver(setting)],
    )
    module = trainers.Account(asked if setting["kills"] else training.reseeded(asked))
    trainers.fit(running, module, length=asked.steps * asked.accumulation, ckpt_path="last")
    report(papers, running.global_rank, trainers.report(setting, running, module))


if __name__ == "__main__":
    main()
