"""What processes of the harness do not take over from the shell or the job that it was started in.

A batch system, a launcher or an mpiexec around the harness told *it* variables that would mislead ranks about who they
are, and an mpiexec about hosts, networks and how to start ranks on them, which here are always on this one host. What
says how this host is to be used (I_MPI_FABRICS, FI_PROVIDER, UCX_TLS, OMPI_MCA_btl) is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_OF_OUTER_JOB = re.compile(
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


_OF_SHELL = frozenset({"PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONINSPECT", "PYTHONVERBOSE", "PYTHONPROFILEIMPORTTIME"})
"""Python options that somebody set for other programs: torch and DeepSpeed warn, and they and the suites assert."""


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """What an interpreter of the harness starts with, of the harness's own `environment`. Pure.

    In UTF-8 mode, whatever the locale: torch and DeepSpeed read files of their own in the locale's encoding. A case
    that asks what happens in the user's locale sets PYTHONUTF8 itself.
    """
    kept = {name: value for name, value in without_outer_job(environment).items() if name.upper() not in _OF_SHELL}
    return {**kept, "PYTHONUTF8": "1"}


def without_outer_job(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` less those variables. Pure."""
    return {name: value for name, value in environment.items() if not _OF_OUTER_JOB.fullmatch(name)}


def of_outer_job(environment: Iterable[str]) -> tuple[str, ...]:
    """The names of those variables among `environment`, sorted. Pure."""
    return tuple(sorted(name for name in environment if _OF_OUTER_JOB.fullmatch(name)))
