"""`triage lookup`: tables, names, lines of a log and words, without evidence and at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from triage import content
from triage.cli.lookup import command
from triage.lookup import lookup, lookup_text
from triage.matching.extract import compiled
from triage.matching.loading import catalogue
from triage.matching.needles import candidates, needles, stored_needles
from triage.model.lookup import Answer, ExitCode, RdmaStatus, State

LOST = "[ 8123.4] NVRM: Xid (PCI:0000:3b:00): 79, pid=4021, name=python, GPU has fallen off the bus."
LONGEST = 0.3  # seconds for the whole process


def test_a_command_names_what_to_put_in() -> None:
    assert "lspci -s <pci> -vv" in run("79").output


def run(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command, [*words], input=text, standalone_mode=False)


@pytest.mark.parametrize(
    ("query", "kind", "name", "cause"),
    [
        ("79", "Xid", "79", "gpu/fallen-off-bus"),
        ("Xid 79", "Xid", "79", "gpu/fallen-off-bus"),
        ("xid:79", "Xid", "79", "gpu/fallen-off-bus"),
        ("ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS", "Xid", "79", "gpu/fallen-off-bus"),
        ("SXid 12028", "SXid", "12028", None),
        ("12028", "SXid", "12028", None),
        ("vendor err 129", "RDMA vendor error", "129", "network/rdma-transport"),
        ("vend 0x81", "RDMA vendor error", "129", "network/rdma-transport"),
        ("status 12", "RDMA status", "12", "network/rdma-transport"),
        ("IBV_WC_RETRY_EXC_ERR(12)", "RDMA status", "12", "network/rdma-transport"),
        ("NCCL_IB_GID_INDEX", "environment variable", "NCCL_IB_GID_INDEX", None),
        ("nccl_ib_gid_index", "environment variable", "NCCL_IB_GID_INDEX", None),
        ("exit 137", "exit code", "137", "host/process-killed"),
        ("exitcode -9", "signal", "SIGKILL", "host/process-killed"),
        ("0:9", "signal", "SIGKILL", "host/process-killed"),
        ("signal 9", "signal", "SIGKILL", "host/process-killed"),
        ("SIGKILL", "signal", "SIGKILL", "host/process-killed"),
        ("kill -15", "signal", "SIGTERM", "scheduler/cancelled"),
        ("OUT_OF_MEMORY", "job state", "OUT_OF_MEMORY", "memory/host-limit"),
        ("oomkilled", "job state", "OOMKilled", "memory/host-limit"),
        ("gpu/fallen-off-bus", "cause", "gpu/fallen-off-bus", "gpu/fallen-off-bus"),
        ("gpu/xid-79-fallen-off-bus", "signature", "gpu/xid-79-fallen-off-bus", "gpu/fallen-off-bus"),
        (LOST, "signature", "gpu/xid-79-fallen-off-bus", "gpu/fallen-off-bus"),
    ],
)
def test_what_is_known(query: str, kind: str, name: str, cause: str | None) -> None:
    first = lookup(query).found[0]
    assert (first.kind, first.name, first.cause) == (kind, name, cause)
    assert first.means


def test_an_xid_has_everything_that_a_person_on_call_asks() -> None:
    (found,) = lookup("79").found
    assert found.role == "root-cause"
    assert found.vendor_action == "RESTART_BM"
    assert found.vendor_action not in " ".join(action.do for action in found.actions)
    assert found.next_check
    assert found.confused_with
    assert "Xid 154" in found.follows
    assert found.history
    assert "disruptive" in {action.risk for action in found.actions}


def test_a_number_of_several_tables_gives_all_of_them() -> None:
    assert {entry.kind for entry in lookup("12").found} >= {"Xid", "signal", "RDMA status"}


def test_the_value_of_a_variable_is_judged() -> None:
    (bad,) = lookup("NCCL_SOCKET_IFNAME=lo").found
    (good,) = lookup("NCCL_SOCKET_IFNAME=eth0").found
    assert bad.notes["NCCL_SOCKET_IFNAME=lo"] != good.notes["NCCL_SOCKET_IFNAME=eth0"]


def test_a_consequence_says_so() -> None:
    assert lookup("SXid 12028").found[0].role == "consequence"
    assert lookup("SIGTERM").found[0].role == "consequence"
    assert lookup("status 5").found[0].role == "consequence"


def test_the_more_specific_signature_of_a_line_replaces_the_generic_one() -> None:
    assert "gpu/xid-other" not in {entry.name for entry in lookup_text(LOST).found}


def test_nvlink5_words_are_decoded() -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 144, SAW_MVB Fatal XC0 i0 Link -1 (0x00000000 0x00000002 0x0 0x0 0x0 0x0)"
    (found, *_) = lookup(line).found
    assert "decoded" in found.notes
    assert found.vendor_action == "RESET_GPU"


def test_a_pasted_message_is_read_as_a_whole() -> None:
    memory = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    text = f"epoch 3 step 100 loss 2.1\n{LOST}\n{memory}\n"
    kinds = {entry.cause for entry in lookup_text(text).found}
    assert "gpu/fallen-off-bus" in kinds
    assert len(kinds) > 1


def test_words_find_what_speaks_of_all_of_them() -> None:
    answer = lookup("nvlink down")
    assert answer.found
    assert all(entry.kind in {"cause", "signature", "playbook", "environment variable"} for entry in answer.found)


@pytest.mark.parametrize(
    ("asked", "name"),
    [("my gpu is slow", "gpu/slow"), ("what does xid 79 mean", "gpu/xid-79-fallen-off-bus"), ("the", None)],
)
def test_words_that_only_fill_a_question_are_left_out(asked: str, name: str | None) -> None:
    found = [entry.name for entry in lookup(asked).found]
    assert found[:1] == ([name] if name else [])


def test_nothing_found_exits_4_and_tells_the_nearest_names() -> None:
    result = run("torch/watchdog-timeot")
    assert result.return_value == 4
    assert "torch/watchdog-timeout" in result.output
    assert run("Xid 4711").return_value == 4


def test_text_and_json_say_the_same() -> None:
    import msgspec

    text, data = run("Xid", "79"), run("Xid", "79", "--format", "json")
    answer = msgspec.convert(json.loads(data.stdout), Answer)
    assert answer == lookup("Xid 79")
    assert "vendor says" in text.output
    assert answer.found[0].actions[0].do.split(";")[0] in text.output


def test_standard_input_is_shown_without_control_characters() -> None:
    result = run("-", text=f"\x1b[31m{LOST}\n")
    assert result.return_value == 0
    assert "gpu/xid-79-fallen-off-bus" in result.output
    assert "\x1b" not in result.output


@pytest.mark.parametrize(("name", "kind"), [("exit_codes", ExitCode), ("rdma_status", RdmaStatus), ("states", State)])
def test_tables_are_sound_and_name_causes_that_exist(name: str, kind: type) -> None:
    from triage.lookup.names import causes

    rows = content.load(content.data(f"{name}.yaml"), list[kind])  # type: ignore[valid-type]
    assert {row.cause for row in rows} - {None} <= set(causes())
    assert len({str(row) for row in rows}) == len(rows)


def test_every_row_of_every_table_can_be_found() -> None:
    for code in content.load(content.data("exit_codes.yaml"), list[ExitCode]):
        assert lookup(f"exit {code.code}").found[0].name == str(code.code)
    for state in content.load(content.data("states.yaml"), list[State]):
        assert state.state in {entry.name for entry in lookup(state.state).found}
    for row in content.load(content.data("rdma_status.yaml"), list[RdmaStatus]):
        query = f"status {row.status}" if row.status is not None else f"vendor err {row.vendor}"
        assert row.means == lookup(query).found[0].means


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (r"fallen off (?P<x>the bus)", ("fallen off ",)),
        (r"(?:abcd|efgh) (?P<n>\d+)", ("abcd", "efgh")),
        (r"(?:x|y)?abc", ("abc",)),
        (r"\d+", ("",)),
        (r"ABC\.def+g", ("abc.def",)),
        (r"one|two\d", ("one", "two")),
    ],
)
def test_needles(expression: str, wanted: tuple[str, ...]) -> None:
    assert tuple(needles(expression)) == wanted or set(needles(expression)) == set(wanted)


def test_candidates_are_few() -> None:
    assert "gpu/xid-79-fallen-off-bus" in {each.id for each in candidates(LOST)}
    assert len(candidates(LOST)) < 40


def test_no_example_is_missed_for_want_of_a_needle() -> None:
    missed = [
        (signature.id, line)
        for signature in catalogue().values()
        for example in signature.examples.matches
        for line in example.text.splitlines()
        for pattern in signature.match
        if compiled(pattern.regex).search(line)
        and not any(needle in line.lower() for needle in stored_needles()[pattern.regex])
    ]
    assert missed == []


HEAVY = {"numpy", "networkx", "jinja2", "rich", "hyperscan", "re2", "torch", "pynvml", "asyncio"}


@pytest.mark.parametrize("words", [["79"], ["SXid 12028"], ["NCCL_IB_GID_INDEX"], ["gpu/fallen-off-bus"]])
def test_a_look_up_loads_nothing_heavy(words: list[str]) -> None:
    """What makes it instant; the seconds themselves are measured in benchmarks/start_up.py."""
    code = f"import sys; sys.argv = ['triage', 'lookup', *{words!r}]\nimport triage.cli\n"
    code += "try:\n    triage.cli.main()\nexcept SystemExit:\n    print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not HEAVY & set(done.stderr.split())


def test_answers_in_chinese() -> None:
    told = run("storage/stall", "--lang", "zh").output
    assert told.startswith("存储过慢或挂起")
    assert "  含义      进程在等待文件系统" in told
    assert "询问存储团队" in told
    assert "会中断服务" in run("gpu/xid-79-fallen-off-bus", "--lang", "zh").output
    assert "首先查看" in run("gpu-lost", "--lang", "zh_CN.UTF-8").output
    assert "该卡在 PCIe 上不再应答" in run("79", "--lang", "zh").output
    assert "没有机会清理" in run("exit 137", "--lang", "zh").output
    assert "作业的某个进程达到内存限制" in run("OUT_OF_MEMORY", "--lang", "zh").output
    assert "RoCE 的 GID 表条目" in run("NCCL_IB_GID_INDEX", "--lang", "zh").output
    assert "远端在全部重试中没有应答" in run("status 12", "--lang", "zh").output
    for words in ("storage/stall", "79"):
        assert run(words, "--lang", "en").output == run(words).output
        assert run(words, "--lang", "zh", "--format", "json").output == run(words, "--format", "json").output
