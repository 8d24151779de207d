"""A process is made what it was: what modules, classes and functions keep from one job to the next."""

from __future__ import annotations

import subprocess
import sys

PLANTED = """
import sys, types
import conformance.ranks.restore as restore

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
picture = restore.Picture({"planted"})
for _ in range(3):
    module.total += 1
    module.seen.append(1)
    module.Init.next += 1
    module.late = True
    answers = [module.number(), module.Init().method(), module.Init.helper()]
    left = picture.restore()
    assert not left, left
    assert answers == [1, 1, 1], answers
    assert (module.total, module.seen, module.Init.next, hasattr(module, "late")) == (0, [], 0, False)
    assert module.number.__kwdefaults__ == {"names": {}}
print("restored")
"""


def test_what_a_job_changed_is_as_before() -> None:
    result = subprocess.run([sys.executable, "-c", PLANTED], capture_output=True, encoding="utf-8", timeout=60)
    assert result.stdout.splitlines() == ["restored"], result.stderr
