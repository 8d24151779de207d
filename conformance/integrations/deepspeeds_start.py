"""torch.distributed started by DeepSpeed, as a script does it whose integration leaves it to the script."""

from __future__ import annotations

import deepspeed

from conformance.integrations.mpi_port import agree_on_port
from conformance.model.setting import Setting
from conformance.reference import mpi_transport


def init_distributed(setting: Setting) -> None:
    """`deepspeed.init_distributed` with the lane's transport; collective where mpiexec started the ranks."""
    transport = mpi_transport.register() if setting.transport == "mpi" else setting.transport
    if setting.launcher == "mpi":
        deepspeed.init_distributed(dist_backend=transport, distributed_port=agree_on_port())
    else:
        deepspeed.init_distributed(dist_backend=transport)
