"""What several suites share: training, observing, checking."""
