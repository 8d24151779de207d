"""The models that cells train, their data and their loss: the same in every rank and in the oracle."""

from conformance.models.task import ROWS, Task, build, global_batch, micro_batch, task

__all__ = ["ROWS", "Task", "build", "global_batch", "micro_batch", "task"]
