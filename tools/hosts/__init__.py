"""Many kinds of host on one machine: `nox -s hosts` runs a lane under each and tells whose verdicts differ, and why."""
