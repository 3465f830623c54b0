"""What the frames of a stack tell: the work that a function belongs to, and what the kernel sleeps on.

Names of files and functions are those of the projects themselves (torch 2.13, safetensors, CPython 3.11, Linux 6.1).
"""

from __future__ import annotations

import re

_COLLECTIVES = (
    r"all_\w+|barrier|monitored_barrier|broadcast\w*|reduce\w*|gather\w*|scatter\w*|send\w*|recv\w*|isend|irecv"
    r"|batch_isend_irecv|_all_gather_base|_reduce_scatter_base"
)
_SAVING, _LOADING = r"_?save|_legacy_save|save_file|write_end_of_file", r"_?load|_legacy_load|load_tensor|load_file"
_CLIENTS = r"huggingface_hub|urllib3|botocore|aiobotocore|boto3|s3fs|gcsfs|requests"
_LOADERS = (
    r"torch/utils/data|torchdata|webdataset|nvidia/dali|streaming/base|datasets/(?:arrow_dataset|iterable_dataset)"
)
_FILE_MODULES = r"pathlib|gzip|bz2|lzma|zipfile|tarfile|shutil|glob|os"
_FILE_PACKAGES = r"h5py/_hl|numpy/lib/(?:_?npyio|format)|pyarrow/parquet|fsspec/|PIL/Image"
_LOCK_MODULES = r"threading|queue|multiprocessing/synchronize|filelock/\w+|portalocker/\w+|torch/utils/file_baton"

Table = tuple[tuple[str, str], ...]
# (kind, expression over `function file`): the work, of which the innermost frame decides.
WORK: Table = (
    ("collective", rf"\b(?:{_COLLECTIVES}) \S*torch/distributed/distributed_c10d\.py"),
    ("debugger", r"\S (?:\S*/)?(?:pdb|bdb|ipdb/__main__|debugpy/\S{1,80}|IPython/terminal/\S{1,60})\.py"),
    ("compile", r"\S \S*(?:torch/(?:_inductor|_dynamo)/|triton/(?:compiler|runtime|backends)/|cpp_extension\.py)"),
    ("checkpoint-write", rf"\b(?:{_SAVING}) \S*(?:torch/serialization|safetensors/torch)\.py"),
    ("checkpoint-write", r"\b(?:write_data|_write_files\w*|_write_item|_?save_state_dict) \S*distributed/checkpoint/"),
    ("checkpoint-write", r"\b(?:_?save_checkpoint\w*|save_pretrained|_save_zero_checkpoint) "),
    ("checkpoint-read", rf"\b(?:{_LOADING}) \S*(?:torch/serialization|safetensors/torch)\.py"),
    ("checkpoint-read", r"\bread_data \S*distributed/checkpoint/|\b(?:_?load_checkpoint\w*|from_pretrained) "),
    ("download", rf"\S \S*\b(?:{_CLIENTS})/|\S (?:\S*/)?http/client\.py"),
    ("input", rf"\S \S*\b(?:{_LOADERS})"),
)
# The way of waiting, when no frame tells the work.
WAYS: Table = (
    ("lock", rf"\b(?:wait|acquire|_wait_for_tstate_lock|join|__enter__|get) (?:\S*/)?(?:{_LOCK_MODULES})\.py"),
    ("process", r"\b(?:_?wait|_try_wait|_?communicate|join|poll) (?:\S*/)?(?:subprocess|multiprocessing/\w+)\.py"),
    ("file", rf"\S (?:\S*/)?(?:{_FILE_MODULES})\.py|\S \S*\b(?:{_FILE_PACKAGES})"),
    ("device", r"\bsynchronize \S*torch/cuda/|\b_engine_run_backward \S*torch/autograd/"),
)
_FILE_SYSTEMS = (
    r"nfs\w*|sunrpc|lustre|ptlrpc|osc|obdclass|lov|mdc|ldlm|mmfs26|mmfslinux|ceph|libceph|fuse|cifs|smb3|beegfs"
    r"|wekafsio|wekafsgw|9p|9pnet|xfs|ext4|jbd2|btrfs|zfs"
)
_FILE_CALLS = (
    r"nfs\d?_|rpc_|xprt_|__rpc_|fuse_|ceph_|ext4_|xfs_|jbd2_|btrfs_|blk_mq_|submit_bio_wait|io_schedule|folio_wait_"
    r"|wait_on_page|v9fs_|p9_client_|cifs_|smb2_"
)
# What the kernel sleeps on; the innermost function that one of them knows decides.
SLEEP: Table = (
    ("storage", rf"^(?:{_FILE_CALLS})|\[(?:{_FILE_SYSTEMS})\]$"),
    ("pipe", r"^(?:anon_pipe_|pipe_|fifo_)"),
    ("network", r"^(?:tcp_|sk_wait_data|inet_|wait_woken|unix_stream)"),
    ("driver", r"\[nvidia\w*\]$"),
    ("lock", r"^futex_"),
    ("poll", r"^(?:poll_|do_sys_poll|ep_poll|do_select)"),
    ("sleep", r"^(?:hrtimer_|do_nanosleep)"),
)
_COMPILED = {table: [(kind, re.compile(form)) for kind, form in table] for table in (WORK, WAYS, SLEEP)}


def kind(table: Table, frame: str) -> str | None:
    """The first kind of a table that fits a frame."""
    return next((name for name, form in _COMPILED[table] if form.search(frame)), None)
