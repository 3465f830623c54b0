"""Lists of hosts."""

from __future__ import annotations

import pytest

from triage.errors import UsageError
from triage.transport.nodelists import expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node1", ["node1"]),
        ("node[1-3]", ["node1", "node2", "node3"]),
        ("node[08-10,12]-ib,login1", ["node08-ib", "node09-ib", "node10-ib", "node12-ib", "login1"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a b,a", ["a", "b"]),
        ("10.0.3.17, user@host.example", ["10.0.3.17", "user@host.example"]),
    ],
)
def test_lists(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text", ["", "node[a-b]", "node[3-1]", "node[1-", "-oProxyCommand=x", "$(x)", "n[1-9999999]", "a;b"]
)
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(UsageError):
        expand(text)
