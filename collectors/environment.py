"""The variables of the ranks that steer NCCL, CUDA, torch and the scheduler; nothing else of their environment."""

import _ranks

NAME = "environment"
TITLE = "Environment of the ranks"
NEEDS = ()
SECONDS = 8
PREFIXES = (
    "NCCL_", "CUDA_", "TORCH_", "PYTORCH_", "TORCHELASTIC_", "SLURM_", "OMPI_", "UCX_", "FI_", "NVIDIA_", "OMP_",
    "MKL_",
    "HSA_", "ROCR_", "HIP_", "RCCL_", "HCCL_", "ASCEND_", "GLOO_", "NVSHMEM_", "TRITON_", "DEEPSPEED_", "NVTE_", "XLA_",
    "LD_", "PYTHON", "KUBERNETES_NODE", "TRIAGE_",
)  # fmt: skip
NAMES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "HOSTNAME",
    "NODE_RANK", "TMPDIR", "VIRTUAL_ENV", "CONDA_PREFIX", "MALLOC_CONF", "GLIBC_TUNABLES",
)  # fmt: skip


def collect(run):
    """One file a rank; for a job that has ended, what the scheduler kept is in job/."""
    for one in _ranks.processes(run):
        lines = sorted(
            "%s=%s" % pair for pair in one.environment.items() if pair[0].startswith(PREFIXES) or pair[0] in NAMES
        )
        name = "rank%s.pid%d.env.txt" % (one.rank, one.pid)
        run.text(name, "\n".join(lines) + "\n", rank=one.rank, local_rank=one.local_rank, pid=one.pid)
