"""A process is made what it was: what modules, classes and functions keep from one job to the next."""

from __future__ import annotations

import subprocess
import sys

PLANTED = """
import sys, types
import conformance.ranks.inside.restore as restore

source = '''
total = 0
seen = []

def number(count=[0], *, names={}):
    count[0] += 1
    names[count[0]] = "x"
    return count[0]

class Init:
    next = 0

    def method(self, count=[0]):
        count[0] += 1
        return count[0]

    @staticmethod
    def helper(count=[0]):
        count[0] += 1
        return count[0]
'''
module = types.ModuleType("planted")
exec(compile(source, "planted", "exec"), vars(module))
module.Init.__module__ = "planted"
sys.modules["planted"] = module
snapshot = restore.Snapshot({"planted"})
for _ in range(3):
    module.total += 1
    module.seen.append(1)
    module.Init.next += 1
    module.late = True
    answers = [module.number(), module.Init().method(), module.Init.helper()]
    left = snapshot.restore()
    assert not left, left
    assert answers == [1, 1, 1], answers
    assert (module.total, module.seen, module.Init.next, hasattr(module, "late")) == (0, [], 0, False)
    assert module.number.__kwdefaults__ == {"names": {}}
print("restored")
"""


def test_what_a_job_changed_is_as_before() -> None:
    result = subprocess.run([sys.executable, "-c", PLANTED], capture_output=True, encoding="utf-8", timeout=60)
    assert result.stdout.splitlines() == ["restored"], result.stderr


ENGINES = """
import os
import weakref

os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
import deepspeed
import psutil
import torch

import conformance.ranks.inside.restore as restore
from conformance.ranks.inside import warm
from conformance.ranks.pool import ports

warm.up(["torch", "deepspeed"])
snapshot = restore.Snapshot({"deepspeed"})


class Odd(type):
    __module__ = property(lambda kind: 3)


odd = Odd("Odd", (), {})()
gone = weakref.proxy(torch.nn.Linear(1, 1))
threads = []
for stage in (0, 1, 2, 3) * 2:
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "torch_adam": True}},
        "zero_optimization": {"stage": stage},
    }
    port = ports.reserve()
    os.environ["MASTER_PORT"] = str(port.number)
    engine, *_ = deepspeed.initialize(model=torch.nn.Linear(8, 1), config=config)
    port.release()
    engine.backward(engine(torch.randn(4, 8)).sum())
    engine.step()
    del engine
    left = snapshot.restore()
    assert not left, left
    threads.append(psutil.Process().num_threads())
import tqdm

list(tqdm.tqdm(range(2)))
assert tqdm.tqdm.monitor is not None
assert not snapshot.restore()
print("threads", *threads)
"""


def test_nothing_of_a_jobs_engines_lives_on() -> None:
    result = subprocess.run([sys.executable, "-c", ENGINES], capture_output=True, encoding="utf-8", timeout=120)
    assert result.returncode == 0, result.stderr
    threads = result.stdout.splitlines()[-1].split()[1:]
    assert len(threads) == 8
    assert len(set(threads)) == 1, "each engine that lives on keeps the threads of its process groups"
