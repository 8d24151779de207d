"""The variables that ranks start with."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LAUNCHER_NAMES = re.compile(
    r"(RANK|WORLD_SIZE|LOCAL_(RANK|SIZE|WORLD_SIZE)|NODE_RANK|GROUP_(RANK|WORLD_SIZE)|ROLE_(NAME|RANK|WORLD_SIZE)"
    r"|CROSS_(RANK|SIZE)|MASTER_(ADDR|PORT)|MPI_LOCALN?RANK(ID|S)|DLTS_JOB_ID|SM_TRAINING_ENV|ALPS_APP_PE|OMPI_VERSION"
    r"|I_MPI_HYDRA_UUID)"
    r"|(OMPI_(COMM_|FILE_LOCATION|APP_CTX|ARGV|COMMAND|FIRST_RANKS|MCA_orte_|MCA_ess_|NUM_APP_CTX|UNIVERSE_SIZE)"
    r"|PMI2?_|PMIX_|PRTE_|HYDI_|MPIEXEC_|MV2_COMM_|MSMPI_(?!BIN|INC|LIB)|SMPD_|SLURMD?_|SRUN_|PBS_|LSB_|JSM_|FLUX_|PALS_"
    r"|TORCHELASTIC_|AZUREML_|AZ_BATCH).*",
    re.IGNORECASE,
)

_READ_AT_IMPORT = re.compile(
    r"DS_ACCELERATOR|DS_SKIP_|PYTHON|LD_|OMP_|MKL_|KMP_|OPENBLAS_|NUMEXPR_|ATEN_|CUDA_|NVIDIA_|PYTORCH_|TORCH_|MALLOC_"
)

FORK_SERVER = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
"""Keeps the libraries that a fork server imports from starting threads, and torch from asking CUDA for devices."""


def without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment less what a cluster job or mpiexec set in it, which would mislead ranks."""
    return {name: value for name, value in environment.items() if not _LAUNCHER_NAMES.fullmatch(name)}


def overlaid(environment: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """`environment` with the variables of `changes` set, or with None unset."""
    result = {name: value for name, value in environment.items() if name not in changes}
    result.update({name: value for name, value in changes.items() if value is not None})
    return result


def of_rank(rank: int, world: int, port: int) -> dict[str, str | None]:
    """What the launcher `env` tells rank `rank` of `world` ranks on one host."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def needs_fresh_interpreter(changes: Mapping[str, str | None]) -> bool:
    """Whether a variable is among `changes` that is read when torch, DeepSpeed or the interpreter start."""
    return any(_READ_AT_IMPORT.match(name.upper()) for name in changes)
