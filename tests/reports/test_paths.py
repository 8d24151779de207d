"""A machine's own folders are taken out of what is published, and nothing else."""

from __future__ import annotations

import pytest

from conformance.model.record import Record, to_line
from conformance.model.verdict import Verdict
from reports import paths
from tests.reports import factory

TRACEBACK = """Traceback (most recent call last):
  File "/home/someone/my work/deepspeed-conformance/conformance/ranks/inside/worker.py", line 113, in run
  File "/home/someone/envs/a b/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1, in forward
  File "Z:\\envs\\wine env\\python\\Lib\\shutil.py", line 561, in copytree
  File "/usr/lib/python3.12/shutil.py", line 561, in copytree
FileExistsError: [Errno 17] File exists: '/tmp/conformance-r6gnk48i/checkpoint/global_step3'"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRACEBACK.splitlines()[1], '  File "conformance/ranks/inside/worker.py", line 113, in run'),
        (TRACEBACK.splitlines()[2], '  File "site-packages/torch/nn/modules/module.py", line 1, in forward'),
        (TRACEBACK.splitlines()[3], '  File "python/shutil.py", line 561, in copytree'),
        (TRACEBACK.splitlines()[4], '  File "python/shutil.py", line 561, in copytree'),
        ("  :\\envs\\wine\\Lib\\site-packages\\torch\\a.py", "  site-packages/torch/a.py"),
        (
            TRACEBACK.splitlines()[5],
            "FileExistsError: [Errno 17] File exists: '<folder>/checkpoint/global_step3'",
        ),
        (r"C:\Users\someone\AppData\Local\Temp\conformance-ab12cd_3\x.pt", "<folder>/x.pt"),
        ("op in /home/someone/ops/cpu_adam is not current", "op in <path>/cpu_adam is not current"),
        (r"D:\builds\run 1", r"<path>/run 1"),
        ("at /proc/self/fd and /dev/shm", "at /proc/self/fd and /dev/shm"),
        ("[/__w/pytorch/gloo/pair.cc:553] Connection closed", "[/__w/pytorch/gloo/pair.cc:553] Connection closed"),
        ("deepspeed/comm/comm.py; https://example.org/a/b", "deepspeed/comm/comm.py; https://example.org/a/b"),
        ("zero/train[stage=2], 3/4, N/A, and / or", "zero/train[stage=2], 3/4, N/A, and / or"),
        ("file:///home/someone/store", "file://<path>/store"),
        ("file:///C:/Users/someone/store", "file:///<path>/store"),
    ],
)
def test_paths_in_texts(text: str, expected: str) -> None:
    assert paths.out_of(text) == expected
    assert paths.out_of(expected) == expected


def test_a_run_s_header_is_bare_too() -> None:
    where = factory.provenance("run", environment={"CONFORMANCE_EXPORT_CHECKPOINTS": "C:\\Users\\someone\\bundles"})
    header = factory.header(planned=("zero/a",), provenance=where)
    assert paths.without(header).provenance == where.model_copy(
        update={"environment": {"CONFORMANCE_EXPORT_CHECKPOINTS": "<path>"}}
    )
    bare = header.model_copy(update={"provenance": None})
    assert paths.without(bare) == bare


def test_a_record_without_the_machine_s_folders() -> None:
    where = factory.provenance(
        "run", environment={"CONFORMANCE_MPI": "impi", "TORCH_EXTENSIONS_DIR": "/home/someone/ops"}
    )
    record = factory.record("zero/train[stage=1]", Verdict.FAIL, reason="no", log=TRACEBACK, provenance=where)
    bare = paths.without(record)
    assert bare.provenance.environment == {"CONFORMANCE_MPI": "impi", "TORCH_EXTENSIONS_DIR": "<path>"}
    assert "someone" not in to_line(bare)
    assert paths.without(bare) == bare
    kept = {"log", "provenance"}
    assert record.model_dump(exclude=kept) == bare.model_dump(exclude=kept)
    assert isinstance(bare, Record)
