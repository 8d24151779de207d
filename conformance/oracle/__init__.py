"""What training must come to: plain PyTorch in one process, and how far a right answer may be from it."""

from conformance.oracle.question import Optimizer, Question
from conformance.oracle.tolerance import Tolerance, tolerance
from conformance.oracle.trajectory import Trajectory, trajectory

__all__ = ["Optimizer", "Question", "Tolerance", "Trajectory", "tolerance", "trajectory"]
