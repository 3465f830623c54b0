"""TAB in real shells, and every value that can be completed."""

from __future__ import annotations

import os
import pty
import re
import resource
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from triage.cli import cli
from triage.cli._completing import FILE_METAVARS, VALUES, Word, causes, equip, playbooks, signatures

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
# parameters that are free text: nobody can offer what stands there
FREE = {
    ("check", "gpus"), ("check", "rendezvous"), ("collect", "job"), ("collect", "nodelist"), ("collect", "since"),
    ("collect", "until"), ("collect", "timeout"), ("collect", "ssh"), ("collect", "kubectl"), ("compare", "fail_over"),
    ("history list", "node"), ("history show", "identity"), ("history note", "identity"), ("history note", "text"),
    ("redact", "hosts"), ("redact", "users"), ("playbook search", "words"), ("signature list", "words"),
    ("explain", "engine"),
}  # fmt: skip


def walk(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        each = group.get_command(context, name)
        assert each is not None
        yield f"{path}{name}", each
        if isinstance(each, click.Group):
            yield from walk(each, f"{path}{name} ")


def offered(*words: str) -> list[str]:
    """What a shell is given for the last word."""
    shell = ShellComplete(cli, {}, "triage", "_TRIAGE_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a shell asks. What is equipped stays so in this process, and takes the same values as before."""
    monkeypatch.setenv("_TRIAGE_COMPLETE", "bash_complete")


def test_every_text_parameter_is_completed_or_free() -> None:
    open_ones = {
        (path, str(parameter.name))
        for path, each in walk(cli)
        for parameter in each.params
        if isinstance(parameter.type, (click.types.StringParamType, click.types.UnprocessedParamType))
        and not isinstance(parameter.type, Word)
        and parameter.metavar not in FILE_METAVARS
    }
    assert not {one for one in open_ones - set(VALUES) - FREE if "place" not in one[1]}, "say in VALUES or FREE"
    known = {(path, str(parameter.name)) for path, each in walk(cli) for parameter in each.params}
    assert set(VALUES) <= known


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("sig",), "signature"),
        (("explain", "--form"), "--format"),
        (("explain", "--format", "j"), "json"),
        (("explain", "--lang", ""), "zh"),
        (("explain", "--demo", "oom"), "oom-on-one-rank"),
        (("signature", "show", "gpu/xid-79"), "gpu/xid-79-fallen-off-bus"),
        (("signature", "new", "nvl"), "nvlink/"),
        (("playbook", "walk", "gpu"), "gpu-lost"),
        (("repro", "--cause", "memory/gpu-f"), "memory/gpu-fragmentation"),
        (("repro", "--template", "rank"), "rank-stalled"),
        (("collect", "--only", "nvidia_smi,kern"), "nvidia_smi,kernel_log"),
        (("history", "list", "--cause", "netw"), "network"),
        (("lookup", "storage/st"), "storage/stall"),
        (("schema", "sca"), "scaling"),
        (("completion", "z"), "zsh"),
    ],
)
def test_values(asking: None, words: tuple[str, ...], value: str) -> None:
    assert value in offered(*words)


@pytest.mark.parametrize(
    "words", [("explain", "x"), ("explain", "-o", "x"), ("record", "--", "x"), ("compare", "a", "b"), ("repro", "b")]
)
def test_files(asking: None, words: tuple[str, ...]) -> None:
    shell = ShellComplete(cli, {}, "triage", "_TRIAGE_COMPLETE")
    assert [item.type for item in shell.get_completions(list(words[:-1]), words[-1])] == ["file"]


def test_names_read_without_parsing_are_those_of_the_content() -> None:
    from triage.matching.loading import catalogue
    from triage.reasoning import loading

    assert signatures() == sorted(catalogue())
    assert playbooks() == sorted(loading.playbooks())
    assert causes() == sorted(loading.causes())


def test_completing_changes_no_value() -> None:
    @click.command()
    @click.argument("paths", nargs=-1)
    @click.option("--demo", is_flag=False, flag_value="")
    def command(paths: tuple[str, ...], demo: str | None) -> None:
        click.echo(repr((paths, demo)))

    equip("explain", command)
    assert all(isinstance(each.type, Word) for each in command.params)
    assert CliRunner().invoke(command, ["a,b", "-", "--demo"]).output == "(('a,b', '-'), '')\n"


@pytest.mark.parametrize("line", ["triage ", "triage signature show gpu/", "triage repro --cause ", "triage lookup g"])
def test_a_tab_is_quick(line: str) -> None:
    words = line.split(" ")
    environment = dict(os.environ, COMP_WORDS=line, COMP_CWORD=str(len(words) - 1), _TRIAGE_COMPLETE="bash_complete")
    before, costs = resource.getrusage(resource.RUSAGE_CHILDREN), []
    for _ in range(3):
        told = subprocess.run([BIN / "triage"], env=environment, capture_output=True, check=True).stdout
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime)
        before = now
    assert told.startswith(b"plain,")
    assert min(costs) < 0.15, "seconds of processor time; a person waits for it at each TAB"


def test_bash_on_a_terminal(tmp_path: Path) -> None:
    """An interactive bash, in which somebody presses TAB."""
    script = tmp_path / "triage.bash"
    script.write_text(CliRunner().invoke(cli, ["completion", "bash"]).output)
    (tmp_path / "slurm-1234.out").write_text("")
    bash = shutil.which("bash")
    assert bash is not None
    typed = [
        ("triage signature show gpu/xid-79\t", "gpu/xid-79-fallen-off-bus"),
        ("triage expl\t", "triage explain "),
        ("triage explain slurm\t", "slurm-1234.out"),
        ("triage playbook show gpu\t", "gpu-lost"),
    ]
    with Terminal([bash, "--norc", "--noprofile", "-i"], tmp_path) as terminal:
        terminal.wait("$ ")
        terminal.type("PS1='ready> '; bind 'set enable-bracketed-paste off'; source ./triage.bash\n")
        terminal.wait("ready> ")
        for keys, wanted in typed:
            terminal.type(keys)
            terminal.wait(wanted)
            terminal.type("\x15")  # the line goes


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_is_of_the_shell(shell: str, tmp_path: Path) -> None:
    path = tmp_path / shell
    path.write_text(CliRunner().invoke(cli, ["completion", shell]).output)
    assert "_TRIAGE_COMPLETE" in path.read_text()
    if not (found := shutil.which(shell)):
        pytest.skip(f"{shell} is not installed: its script is only printed")
    subprocess.run([found, "-n", path], check=True, timeout=20)
    if shell == "fish":
        asked = f"source {path}; complete -C 'triage signature show gpu/xid-79'"
        environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}", HOME=str(tmp_path))
        told = subprocess.run([found, "-c", asked], capture_output=True, text=True, timeout=20, env=environment)
        assert "gpu/xid-79-fallen-off-bus" in told.stdout


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.command, self.folder, self.seen = command, folder, ""

    def __enter__(self) -> Terminal:
        ours, theirs = pty.openpty()
        environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "dumb", "HOME": str(self.folder), "PS1": "$ "}
        self.process = subprocess.Popen(
            self.command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=self.folder, env=environment,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.end = ours
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.end)

    def type(self, keys: str) -> None:
        self.seen = ""
        os.write(self.end, keys.encode())

    def wait(self, text: str, seconds: float = 30.0) -> None:
        """Until this is on the screen behind what was typed."""
        ends = time.monotonic() + seconds
        while text not in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", self.seen):
            ready = select.select([self.end], [], [], max(0.0, ends - time.monotonic()))[0]
            assert ready, f"{text!r} did not come; seen: {self.seen[-300:]!r}"
            self.seen += os.read(self.end, 4096).decode(errors="replace")
