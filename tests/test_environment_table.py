"""The table of environment variables: typed, without doubles, and usable on values as jobs print them."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from triage import content
from triage.model.environment import Variable

VARIABLES = content.load(content.data("environment.yaml"), list[Variable])
BY_NAME = {variable.name: variable for variable in VARIABLES}


def harmful(name: str, value: str) -> bool:
    """Does this value do the harm that the table names?"""
    pattern = BY_NAME[name].harmful
    return pattern is not None and re.fullmatch(pattern, value) is not None


def test_no_name_stands_twice() -> None:
    assert [name for name, times in Counter(variable.name for variable in VARIABLES).items() if times > 1] == []


def test_the_families_that_jobs_set_are_covered() -> None:
    families = Counter(variable.name.split("_")[0] for variable in VARIABLES)
    assert len(VARIABLES) >= 150
    least = {"NCCL": 80, "TORCH": 20, "CUDA": 12, "FI": 8, "UCX": 7, "HSA": 3, "GLOO": 1, "OMP": 1}
    for family, number in least.items():
        assert families[family] >= number, family


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_an_entry_says_enough(variable: Variable) -> None:
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]+", variable.name)
    assert variable.does.endswith(".")
    assert variable.harm is None or variable.harm.endswith(".")
    assert variable.harmful is None or variable.harm is not None, "values without a harm"
    assert variable.since is None or re.fullmatch(r"[A-Za-z]+ \d+(\.\d+)*", variable.since)
    re.compile(variable.harmful or "")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("NCCL_DEBUG", "TRACE", True),
        ("NCCL_DEBUG", "INFO", False),
        ("NCCL_DEBUG_FILE", "/data/run/nccl.%h.%p.log", False),
        ("NCCL_DEBUG_FILE", "/data/run/nccl.log", True),
        ("NCCL_IB_DISABLE", "1", True),
        ("NCCL_IB_DISABLE", "0", False),
        ("NCCL_SOCKET_IFNAME", "lo", True),
        ("NCCL_SOCKET_IFNAME", "eth0", False),
        ("NCCL_IB_TIMEOUT", "22", False),
        ("NCCL_IB_TIMEOUT", "14", True),
        ("GLOO_SOCKET_IFNAME", "^lo", True),
        ("GLOO_SOCKET_IFNAME", "eth0", False),
        ("CUDA_VISIBLE_DEVICES", "", True),
        ("CUDA_VISIBLE_DEVICES", "0,1,2,3", False),
        ("CUDA_LAUNCH_BLOCKING", "1", True),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", False),
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:32", True),
        ("MASTER_ADDR", "127.0.0.1", True),
        ("MASTER_ADDR", "node017", False),
    ],
)
def test_harmful_values(name: str, value: str, wanted: bool) -> None:
    assert harmful(name, value) is wanted
