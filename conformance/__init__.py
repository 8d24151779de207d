"""A conformance test harness for DeepSpeed integrations: what starts, trains and resumes where, once per platform."""

__version__ = "0.1.0"
