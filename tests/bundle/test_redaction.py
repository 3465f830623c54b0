"""No secret stays, nothing that explains a failure goes, and nodes and `triage redact` give the same bytes."""

from __future__ import annotations

import importlib.util
import io
import json
import random
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from bundle.secrets import BLOCKS, HEX, made, planted
from triage.bundle import redaction
from triage.bundle.redaction import Redactor, rules_file
from triage.cli.redact import command

KEY = bytes(range(32))
PLANTED = planted()
PARTS = [made("MII", 64), made("b", 64), made("c", 20)]
ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    """The nodes' own module, as a file: nothing of triage may import it."""
    spec = importlib.util.spec_from_file_location("_redaction", ROOT / "collectors" / "_redaction.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NODE = load()
HERE = Redactor(KEY)
THERE = NODE.Redactor(rules_file(), KEY)


def copied(redactor: Any, data: bytes) -> bytes:
    sink = io.BytesIO()
    redactor.copy(io.BytesIO(data), sink)
    return sink.getvalue()


def both(data: bytes, words: Mapping[str, Iterable[str]] | None = None, hosts: bool = False) -> bytes:
    """Redacted in both ways, which must agree."""
    if words is None and not hosts:
        here, there = copied(HERE, data), copied(THERE, data)
    else:
        here = copied(Redactor(KEY, words, hosts), data)
        there = copied(NODE.Redactor(rules_file(), KEY, words, hosts), data)
    assert here == there
    return here


def test_at_least_sixty_kinds() -> None:
    assert len(PLANTED) >= 100
    assert len({rule["kind"] for rule in rules_file()["rules"]}) >= 60


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    line, secret = PLANTED[name]
    assert secret in line
    out = both(line.encode() + b"\n").decode()
    assert secret not in out
    assert len(out) > 12
    assert both(out.encode()).decode() == out, "redacting again changes nothing"


@pytest.mark.parametrize("name", BLOCKS)
def test_over_several_lines(name: str) -> None:
    data = ("before\n" + BLOCKS[name].format(*PARTS) + "\nafter it 3.5\n").encode()
    out = both(data).decode()
    assert not [part for part in PARTS if part in out]
    assert out.startswith("before\n")
    assert out.endswith("after it 3.5\n")
    assert "no end of it" in out or name != "cut"
    assert "INFO" in out or name != "pair-yaml"
    assert '"3e-4"' in out or name != "arguments"
    assert both(out.encode()).decode() == out


def test_a_block_over_the_edge_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "CHUNK", 64)
    monkeypatch.setattr(NODE, "CHUNK", 50)
    data = (BLOCKS["pem"].format(*PARTS) + "\n" + BLOCKS["pair-yaml"].format(PARTS[0]) + "\n").encode() * 20
    assert not [part for part in PARTS if part.encode() in both(data)]


@pytest.mark.parametrize("seed", range(40))
def test_a_line_without_an_end_is_cut_at_the_same_place(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    for module, chunk in ((redaction, 48), (NODE, 90)):
        monkeypatch.setattr(module, "CHUNK", chunk)
        monkeypatch.setattr(module, "LONGEST", 200)
    source = random.Random(seed)
    parts = [line for line, _ in source.sample([*PLANTED.values()], 6)] + ["x" * source.randrange(500), "a b " * 90]
    source.shuffle(parts)
    both(source.choice(["", " ", "\n"]).join(parts).encode())


ADDRESSES = ("8.8.4.4", "2600:1f18::7", "10.0.3.17", "1.2.3", "2026:11:30", "v8.8.4.4", "fe80::1", "9.1.0.70")


@pytest.mark.parametrize("share", [1, 3, 400])
@pytest.mark.parametrize("hosts", [False, True])
def test_addresses_are_found_at_a_glance_and_without(share: int, hosts: bool) -> None:
    """In every so many-th line, so that the scanner looks into the lines, or everywhere at once."""
    lines = [
        f"rank {number % 8}, loss 2.5 " * bool(share > 1) + ADDRESSES[number // share % 8] * (not number % share)
        for number in range(4000)
    ]
    out = both("\n".join(lines).encode(), {}, hosts)
    assert b"8.8.4.4" not in out.replace(b"v8.8.4.4", b"")
    assert b"2600:" not in out
    assert (b"10.0.3.17" in out) is not hosts


KEPT = (
    "TOKENIZERS_PARALLELISM=false", "max_tokens: 4096", "tokens per second: 53211.2", "eos_token_id=2, pad_token_id: 0",
    "NCCL INFO Bootstrap : Using eth0:10.0.3.17<0>", "connect to 192.168.4.7:29500 failed", "[c10d] 127.0.0.1:29400",
    "nvidia-cudnn-cu12 9.1.0.70", "nvidia-cublas-cu12==12.4.5.8", "cuDNN version 9.1.0.70", "driver: 550.54.15",
    "NVRM: Xid (PCI:0000:9b:00): 79, pid=4021, name=python", "pci 0000:3b:00.0", "2026-11-30T15:12:40.123456Z",
    "the password is wrong", "Permission denied (publickey,password).", "key: value", "KeyError: 'model.layers.0'",
    "ncclUniqueId 0x5f3a", "seed=1234 secret=", "slurmstepd: error: Munge decode failed: Invalid credential",
    "user-defined signal 1", "ProcessGroupNCCL.cpp:683 [Rank 3] Watchdog caught collective operation timeout",
    "git@github.com:org/repo.git", "systemd[1]: user@1000.service: Killed", "authentication token expired",
    "sm_90 sk-learn",
    "special_tokens_map.json: pad_token='<pad>'", "/usr/lib/python3/dist-packages/torch/utils.py",
    "task-1234567890123456789",
)  # fmt: skip


@pytest.mark.parametrize("line", KEPT)
def test_what_explains_a_failure_stays(line: str) -> None:
    assert both(line.encode()).decode() == line


def test_people_and_public_addresses() -> None:
    out = both(
        b"alice@example-labs.com from 8.8.4.4 and 2600:1f18::7 in /home/alice/run; UserId=alice(1000)\n"
    ).decode()
    assert "alice" not in out
    assert "8.8.4.4" not in out
    assert "2600:" not in out
    assert out.count(HERE.token if hasattr(HERE, "token") else redaction.token(KEY, "user", b"alice").decode()) == 2


def test_hosts_and_private_addresses_only_when_asked() -> None:
    words = {"host": ["node017", "node018"], "user": ["alice"]}
    line = b"node017.cluster.example: alice on node0171 and node017 at 10.0.3.17: rank=3\n"
    assert both(line, words) == line.replace(b"alice", redaction.token(KEY, "user", b"alice"))
    out = both(line, words, True).decode()
    token = redaction.token(KEY, "host", b"node017").decode()
    assert out.startswith(f"{token}: user-")
    assert f"node0171 and {token} at ip-" in out
    assert "cluster.example" not in out


def test_documents_keep_their_length() -> None:
    secret = made("gh" + "p_", 36).encode()
    data = b"\x80\x04\x00" + secret + b"\x00\x01/home/alice/x.py\x00" + bytes(range(256)) * 4
    out = both(data)
    assert len(out) == len(data)
    assert secret not in out
    assert b"alice" not in out


def test_wide_text() -> None:
    out = both(f"password = {PARTS[0]}\n".encode("utf-16"))
    assert PARTS[0].encode() not in out
    assert b"password = secret-" in out


def test_tokens_are_the_same_everywhere_and_new_under_another_key() -> None:
    line = f"HF_TOKEN={made('hf' + '_', 34)}\n".encode()
    assert copied(Redactor(KEY), line) == copied(NODE.Redactor(rules_file(), KEY), b"x\n" + line)[2:]
    assert copied(Redactor(bytes(32)), line) != copied(HERE, line)


LINES = st.one_of(
    st.sampled_from(
        [line for line, _ in PLANTED.values()] + [*KEPT] + [text.format(*PARTS) for text in BLOCKS.values()]
    ),
    st.text(max_size=60),
    st.text(alphabet="0123456789.:@/=-_ keytopasswdrn\n\r\t\"'", max_size=80),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, max_size=12), st.sampled_from(["\n", "\r\n", " "]))
def test_both_ways_always_agree(lines: list[str], end: str) -> None:
    data = end.join(lines).encode("utf-8", "surrogatepass")
    once = both(data)
    assert b"\0" in data or both(once) == once  # a NUL makes it a document, whose tokens are cut to fit


def test_without_the_fast_scanner_the_bytes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    data = "\n".join(
        [line for line, _ in PLANTED.values()] + [text.format(*PARTS) for text in BLOCKS.values()]
    ).encode()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "hyperscan", None)
        slow = copied(Redactor(KEY), data)
    assert slow == both(data)


def test_every_anchor_can_be_found() -> None:
    for rule in rules_file()["rules"] + rules_file()["host_rules"] + rules_file()["blocks"] + rules_file()["pairs"]:
        for anchor in rule["anchors"]:
            assert anchor.encode().translate(redaction.SHAPE) == anchor.encode(), rule["kind"]
    assert redaction.SHAPE == NODE.SHAPE


# ---- triage redact ----


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value or 0), result.output


def test_command(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    (folder / "node017").mkdir(parents=True)
    text = "\n".join(line for line, _ in PLANTED.values())
    (folder / "node017" / "train.log").write_text(text + "\nnode017 is here\n")
    (folder / "clean.log").write_text("step 1 loss 2.5\n")
    assert run(str(folder), "--verify")[0] == 23
    out = tmp_path / "clean.tar.zst"
    code, said = run(str(folder), "-o", str(out), "--share")
    assert code == 0
    assert "2 files" in said
    assert run(str(out), "--verify", "--share") == (0, "nothing found\n")
    names = json.loads(Path(f"{out}.key.json").read_text())["names"]
    assert "node017" in names.values()
    assert Path(f"{out}.key.json").stat().st_mode & 0o777 == 0o600
    again = tmp_path / "again.tar.gz"
    run(str(out), "-o", str(again), "--key", f"{out}.key.json")
    assert run(str(again), "--verify")[0] == 0


def test_one_log_to_one_log(tmp_path: Path) -> None:
    log, out = tmp_path / "a.out", tmp_path / "b.out"
    log.write_text(f"WANDB_API_KEY={made('', 40, HEX)}\nstep 1\n")
    run(str(log), "-o", str(out))
    assert out.read_text().splitlines()[1] == "step 1"
    assert out.read_text().startswith("WANDB_API_KEY=")
    assert made("", 40, HEX) not in out.read_text()
