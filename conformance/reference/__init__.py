"""The reference integration: DeepSpeed started without an `args` object, on Linux and on Windows::

    from conformance.reference import initialize

    with initialize(model, config) as training:
        ...

It needs torch and deepspeed, and mpi4py where mpiexec starts the ranks; nothing else of this project. Importing it
imports none of them. What DeepSpeed would get wrong without a word is refused with a `StartError`, which names what was
found, what was expected, and the remedy.
"""

from conformance.reference.config import load_config
from conformance.reference.engine import Initialized, initialize
from conformance.reference.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    ModelError,
    MpiError,
    StartError,
    TopologyError,
    TransportError,
)
from conformance.reference.process_group import Connection, shutdown, start
from conformance.reference.topology import Topology, find_topology
from conformance.reference.transport import TRANSPORTS, Ground, choose_transport

__all__ = [
    "TRANSPORTS",
    "CheckpointError",
    "ConfigError",
    "Connection",
    "DataError",
    "Ground",
    "Initialized",
    "ModelError",
    "MpiError",
    "StartError",
    "Topology",
    "TopologyError",
    "TransportError",
    "choose_transport",
    "find_topology",
    "initialize",
    "load_config",
    "shutdown",
    "start",
]
