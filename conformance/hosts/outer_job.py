"""The variables of a job that surrounds the harness: what a batch system, a launcher or an mpiexec told *it*.

They would mislead ranks about who they are, and an mpiexec about hosts, networks and how to start ranks on them, which
here are always on this one host. What says how this host is to be used (I_MPI_FABRICS, FI_PROVIDER, UCX_TLS,
OMPI_MCA_btl) is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_NAMES = re.compile(
    r"(RANK|WORLD_SIZE|LOCAL_(RANK|SIZE|WORLD_SIZE)|NODE_RANK|GROUP_(RANK|WORLD_SIZE)|ROLE_(NAME|RANK|WORLD_SIZE)"
    r"|CROSS_(RANK|SIZE)|MASTER_(ADDR|PORT)|MPI_LOCALN?RANK(ID|S)|DLTS_JOB_ID|SM_TRAINING_ENV|ALPS_APP_PE|OMPI_VERSION"
    r"|PE_HOSTFILE|NSLOTS|NHOSTS|NQUEUES|I_MPI_(PERHOST|PMI_LIBRARY|PROCESS_MANAGER|MPIRUN))"
    r"|(HYDRA_|HYDI_|I_MPI_(HYDRA|JOB)_|MPIEXEC_|PMI2?_|PMIX_|PRTE_|MV2_COMM_|MSMPI_(?!BIN|INC|LIB)|SMPD_"
    r"|OMPI_(COMM_|FILE_LOCATION|APP_CTX|ARGV|COMMAND|FIRST_RANKS|NUM_APP_CTX|UNIVERSE_SIZE"
    r"|MCA_(orte|ess|plm|ras|rmaps|schizo|prte|pmix|initial_wdir))"
    r"|SLURMD?_|SRUN_|SALLOC_|SBATCH_|PBS_|LSB_|LS_(JOBPID|SUBCWD)|SGE_|COBALT_|LOADL|OAR_|CCP_(?!HOME|DATA|INC|LIB|SDK)"
    r"|JSM_|FLUX_|PALS_|TORCHELASTIC_|AZUREML_|AZ_BATCH).*",
    re.IGNORECASE,
)


def without_outer_job(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` less those variables. Pure."""
    return {name: value for name, value in environment.items() if not _NAMES.fullmatch(name)}


def of_outer_job(environment: Iterable[str]) -> tuple[str, ...]:
    """The names of those variables among `environment`, sorted. Pure."""
    return tuple(sorted(name for name in environment if _NAMES.fullmatch(name)))
