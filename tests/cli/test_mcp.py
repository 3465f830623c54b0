"""triage mcp: the tools themselves; the protocol is the SDK's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from triage.cli import cli
from triage.cli.mcp import tools
from triage.errors import UsageError

INCIDENTS = Path(__file__).parents[2] / "fixtures/incidents"


def test_without_the_extra_it_says_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mcp", "mcp.server", "mcp.server.mcpserver", "mcp.server.fastmcp"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"pip install 'gpu-triage\[mcp\]'"):
        CliRunner().invoke(cli, ["mcp"], catch_exceptions=False)


def test_the_tools(tmp_path: Path) -> None:
    explain, evidence, look_up, playbook = tools([INCIDENTS.resolve()], ValueError)
    told = explain("cgroup-kill/evidence")
    assert told["schema"] == "triage.report/1"
    cited = next(each for each in told["hypotheses"][0]["evidence"] if each["line"])
    lines = evidence("cgroup-kill/evidence", cited["file"], cited["line"], around=1)
    assert f"{cited['line']} " in " ".join(lines)
    assert look_up("exit 137")["found"]
    assert "unknown" in playbook("no-such-playbook")


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../../README.md", "cgroup-kill/../../../README.md", "nowhere", "link"]
)
def test_only_what_was_allowed_is_read(path: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "cgroup-kill").mkdir()
    with pytest.raises(ValueError, match="not there, or not below"):
        tools([tmp_path.resolve()], ValueError)[0](path)
