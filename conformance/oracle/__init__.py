"""What training must come to: plain PyTorch in one process, and how far a right answer may be from it.

Questions (conformance.oracle.question) need no torch; the answers (trajectory, tolerance) import it.
"""
