"""The kinds of host that can be emulated."""

from __future__ import annotations

from typing import Final

from tools.hosts.kind import EVERYWHERE, Conditions, Kind

GIB: Final = 1 << 30
MIB: Final = 1 << 20

FP16_CELLS: Final = ("zero/*dtype=fp16*",)

NAMELESS_USER: Final = 54321
"""No distribution gives this user id to anybody."""

_AVX512_BF16 = frozenset({"avx512_bf16", "avx512_fp16", "amx_tile"})
_AVX512_FP16 = frozenset({"avx512_fp16", "amx_tile"})
_AVX512 = frozenset({"avx512f"})


def _variables(**variables: str | None) -> Conditions:
    return Conditions(environment=variables)


def _cluster(name: str, title: str, **variables: str) -> Kind:
    return Kind(
        f"job-{name}",
        f"within a job of {title}",
        _variables(**variables),
        cells=("launch/nothing_set*", "launch/mpi_discovery*"),
        systems=EVERYWHERE,
    )


def _locale(name: str, locale: str, encoding: str) -> Kind:
    return Kind(
        f"locale-{name}",
        f"the locale {locale}, Python's UTF-8 mode off",
        Conditions(locale=locale, environment={"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
        proof={"locale_encoding": encoding},
    )


KINDS: Final[tuple[Kind, ...]] = (
    Kind(
        "isa-avx2",
        "oneDNN and ATen use AVX2 at most",
        _variables(ONEDNN_MAX_CPU_ISA="AVX2", ATEN_CPU_CAPABILITY="avx2"),
        cells=FP16_CELLS,
        proof={"onednn_isa": "Intel AVX2", "aten_isa": "AVX2"},
        systems=EVERYWHERE,
        cpu=_AVX512,
    ),
    Kind(
        "isa-avx512",
        "oneDNN uses AVX512 without bf16 at most",
        _variables(ONEDNN_MAX_CPU_ISA="AVX512_CORE_VNNI"),
        cells=FP16_CELLS,
        systems=EVERYWHERE,
        cpu=_AVX512_BF16,
    ),
    Kind(
        "isa-avx512-bf16",
        "oneDNN uses AVX512 with bf16, without fp16 and AMX, at most",
        _variables(ONEDNN_MAX_CPU_ISA="AVX512_CORE_BF16"),
        cells=FP16_CELLS,
        proof={"fp16": False},
        systems=EVERYWHERE,
        cpu=_AVX512_FP16,
    ),
    Kind(
        "isa-uncapped",
        "oneDNN and ATen use all that the CPU has",
        _variables(ONEDNN_MAX_CPU_ISA=None, ATEN_CPU_CAPABILITY=None),
        cells=FP16_CELLS,
        systems=EVERYWHERE,
    ),
    Kind(
        "fp16-in-software",
        "DeepSpeed's CPU accelerator says that it computes fp16; PyTorch does it in software",
        Conditions(software_fp16=True),
        cells=FP16_CELLS,
        smoke=False,
        proof={"fp16": True},
        systems=EVERYWHERE,
    ),
    Kind("one-core", "processes may use one core", Conditions(cores=1), proof={"cores": 1}, systems=EVERYWHERE),
    Kind("busy", "other work on all cores", Conditions(busy=True), systems=EVERYWHERE),
    Kind("memory-3gib", "3 GiB of memory", Conditions(memory_bytes=3 * GIB), proof={"memory_bytes": 3 * GIB}),
    Kind("shm-64mb", "64 MB of /dev/shm", Conditions(shm_bytes=64 * MIB), proof={"shm_bytes": 64 * MIB}),
    _locale("gbk", "zh_CN.GBK", "gbk"),
    _locale("euc-jp", "ja_JP.EUC-JP", "euc_jp"),
    _locale("c", "C", "ascii"),
    Kind(
        "temporary-folder",
        "a TMPDIR with spaces and 漢字",
        Conditions(temporary="with spaces and 漢字"),
        cells=("checkpoint/place*", "offload/swap_place*"),
        systems=EVERYWHERE,
    ),
    Kind("no-home", "HOME is not set", _variables(HOME=None, USERPROFILE=None), systems=EVERYWHERE),
    Kind("read-only-checkout", "nothing can be written into the checkout", Conditions(read_only=True)),
    Kind(
        "nameless-user",
        "a user without root's rights and without an entry in passwd, as docker run --user makes one",
        Conditions(user=NAMELESS_USER, environment={"HOME": "/", "USER": None, "LOGNAME": None}),
        cells=("checkpoint/full_disk*", "checkpoint/save_place*"),
    ),
    Kind("no-ipv6", "no IPv6 address", Conditions(network="ipv4"), proof={"ipv6": False}),
    Kind("loopback-only", "no network interface but the loopback one", Conditions(network="loopback")),
    Kind(
        "unresolved-name",
        "the host's name does not resolve",
        Conditions(host_name="no-such-host.invalid"),
        cells=("launch/mpi_discovery*", "launch/hostname_command*"),
    ),
    _cluster(
        "slurm",
        "Slurm",
        SLURM_JOB_ID="4711",
        SLURM_PROCID="3",
        SLURM_LOCALID="1",
        SLURM_NTASKS="8",
        SLURM_NNODES="2",
        SLURM_NODELIST="node[01-02]",
        SLURM_JOB_NODELIST="node[01-02]",
        SLURM_TASKS_PER_NODE="4(x2)",
        SLURM_CPU_BIND="quiet,mask_cpu:0x1",
        SLURM_LAUNCH_NODE_IPADDR="192.0.2.1",
    ),
    _cluster(
        "pbs",
        "PBS",
        PBS_JOBID="4711.head",
        PBS_ENVIRONMENT="PBS_BATCH",
        PBS_NODEFILE="/var/spool/pbs/aux/4711.head",
        PBS_NUM_NODES="2",
        PBS_TASKNUM="1",
    ),
    _cluster(
        "lsf",
        "LSF",
        LSB_JOBID="4711",
        LSB_HOSTS="node01 node01 node02 node02",
        LSB_MCPU_HOSTS="node01 2 node02 2",
        LSB_DJOB_HOSTFILE="/home/nobody/.lsbatch/4711.hostfile",
        LSB_AFFINITY_HOSTFILE="/home/nobody/.lsbatch/4711.hostAffinityFile",
        LSF_ENVDIR="/usr/share/lsf/conf",
        LS_JOBPID="4711",
    ),
    _cluster(
        "pmi",
        "a launcher that speaks PMI and PMIx",
        PMI_RANK="3",
        PMI_SIZE="8",
        PMI_FD="27",
        PMI_PORT="node01:4711",
        PMIX_RANK="3",
        PMIX_NAMESPACE="prterun-node01-4711@1",
        PMIX_SERVER_URI41="prterun-node01-4711@0;tcp4://192.0.2.1:4711",
        OMPI_COMM_WORLD_RANK="3",
        OMPI_COMM_WORLD_SIZE="8",
        OMPI_COMM_WORLD_LOCAL_RANK="1",
    ),
    _cluster(
        "hydra",
        "MPICH's Hydra",
        HYDRA_HOST_FILE="/no/such/host/file",
        HYDRA_IFACE="ib0",
        HYDRA_LAUNCHER="ssh",
        HYDRA_BOOTSTRAP="slurm",
        MPIR_CVAR_CH4_OFI_TUNING_FILE="/no/such/tuning.json",
        MPIEXEC_TIMEOUT="1",
    ),
    _cluster(
        "intel-mpi",
        "Intel MPI",
        I_MPI_HYDRA_HOST_FILE="/no/such/host/file",
        I_MPI_HYDRA_IFACE="ib0",
        I_MPI_HYDRA_BOOTSTRAP="ssh",
        I_MPI_PERHOST="1",
        I_MPI_PMI_LIBRARY="/usr/lib64/libpmi.so",
        MPI_LOCALRANKID="1",
        MPI_LOCALNRANKS="4",
    ),
    Kind(
        "signals-ignored",
        "SIGINT and SIGHUP are ignored, as nohup and a script's background leave them",
        Conditions(ignored=("SIGINT", "SIGHUP")),
    ),
    Kind("stdin-closed", "standard input is closed", Conditions(stdin=False)),
    Kind(
        "umask-077",
        "new files are for their owner alone (umask 077)",
        Conditions(umask=0o077),
        cells=("checkpoint/place*", "checkpoint/export_model*"),
    ),
)
