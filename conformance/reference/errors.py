"""Why a start, or a load, was refused: what was looked at, what was found, what was expected, and the remedy."""

from __future__ import annotations


class StartError(RuntimeError):
    """DeepSpeed was not started, because it would have started wrongly or not at all.

    Attributes:
        subject: the variable, key, file or argument that is at fault.
        found: what it holds.
        expected: what it should hold.
        remedy: what to do about it.
    """

    def __init__(self, subject: str, found: str, expected: str, remedy: str) -> None:
        # All four go to args, so that the error survives pickling on its way out of a worker process.
        super().__init__(subject, found, expected, remedy)
        self.subject = subject
        self.found = found
        self.expected = expected
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.subject}: found {self.found}; expected {self.expected}. Remedy: {self.remedy}."


class TopologyError(StartError):
    """The ranks cannot be told apart reliably: who this process is, how many there are, where they meet."""


class MpiError(StartError):
    """MPI is needed and cannot be used: mpi4py or an MPI library is missing, or mpiexec belongs to another MPI."""


class TransportError(StartError):
    """Collectives cannot travel the way that was asked for, or the ranks did not meet."""


class ConfigError(StartError):
    """The DeepSpeed config cannot be read, or holds what DeepSpeed would silently ignore."""


class CheckpointError(StartError):
    """A checkpoint does not fit this job; DeepSpeed would fail without a remedy, or load nothing."""


class DataError(StartError):
    """The training data is not what DeepSpeed's loader can share out among the ranks."""


class ModelError(StartError):
    """What was passed as the model is not one."""
