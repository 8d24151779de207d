"""What a job around the harness has set: taken out where ranks are started, and named in the records."""

from __future__ import annotations

import pytest

from conformance.hosts.inherited import of_outer_job, without_outer_job

BATCH_SYSTEMS = (
    *("SLURM_NTASKS", "SLURM_JOB_NODELIST", "SLURMD_NODENAME", "SRUN_DEBUG", "SALLOC_PARTITION", "SBATCH_ACCOUNT"),
    *("PBS_NODEFILE", "PBS_JOBID", "LSB_MCPU_HOSTS", "LSB_DJOB_HOSTFILE", "LS_JOBPID", "SGE_ROOT", "PE_HOSTFILE"),
    *("NSLOTS", "COBALT_NODEFILE", "LOADLBATCH", "OAR_NODEFILE", "CCP_NODES", "FLUX_JOB_ID", "PALS_RANKID", "JSM_SMPI"),
)
MPIEXECS = (
    *(
        "PMI_RANK",
        "PMI2_FD",
        "PMIX_NAMESPACE",
        "PRTE_LAUNCHED",
        "HYDRA_HOST_FILE",
        "HYDRA_IFACE",
        "HYDRA_RMK",
        "HYDI_X",
    ),
    *("I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_IFACE", "I_MPI_HYDRA_UUID", "I_MPI_JOB_TIMEOUT", "I_MPI_PMI_LIBRARY"),
    *("I_MPI_PERHOST", "MPIEXEC_TIMEOUT", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_orte_default_hostfile"),
    *("OMPI_MCA_plm_rsh_agent", "OMPI_MCA_ras_slurm", "SMPD_PORT", "MSMPI_LOCALRANK"),
)
LAUNCHERS = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK", "TORCHELASTIC_RUN_ID"),
    *("AZUREML_EXPERIMENT_ID", "SM_TRAINING_ENV"),
)
OF_THE_HOST = (
    *("HOME", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_MCA_btl", "I_MPI_ROOT", "I_MPI_FABRICS", "MSMPI_BIN", "FI_PROVIDER"),
    *("OMP_NUM_THREADS", "RANKING", "CCP_HOME", "LSF_BINDIR", "UCX_TLS", "MPICH_ASYNC_PROGRESS"),
)


@pytest.mark.parametrize("name", [*BATCH_SYSTEMS, *MPIEXECS, *LAUNCHERS])
def test_what_an_outer_job_set_is_taken_out_and_named(name: str) -> None:
    assert without_outer_job({name: "1", "PATH": "2"}) == {"PATH": "2"}
    assert of_outer_job({name: "1", "PATH": "2"}) == (name,)


@pytest.mark.parametrize("name", OF_THE_HOST)
def test_what_says_how_the_host_is_used_is_kept(name: str) -> None:
    assert without_outer_job({name: "1"}) == {name: "1"}
    assert of_outer_job({name: "1"}) == ()
