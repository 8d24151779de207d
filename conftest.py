"""The pytest options of the harness; the work is in conformance/."""

pytest_plugins = ["conformance.plugin"]
