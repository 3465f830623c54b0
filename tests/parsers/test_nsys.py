"""Exports of Nsight Systems: the same facts as from a Kineto trace; crafted files end quietly."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.analysis.build import document, facts, incident, named
from triage.analysis import profiles
from triage.parsers import nsys

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel__5x_cublas"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MS = 1_000_000


def export(path: Path, devices: int = 1, short: bool = False) -> bytes:
    """Three steps of 100 ms: 40 ms of waiting for input, 30 ms of matrix products, 10 ms of communication."""
    base = sqlite3.connect(path)
    name = "shortName" if short else "demangledName"
    base.executescript(f"""
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, {name} INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, nameId INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER);
        CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
    """)
    base.executemany(
        "INSERT INTO StringIds VALUES (?, ?)", [(1, GEMM), (2, NCCL), (3, "cudaLaunchKernel"), (4, "dataload")]
    )
    for step in range(3):
        at = 10**15 + step * 100 * MS
        base.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, NULL)", (at, at + 100 * MS, f"step {step}"))
        base.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, 4)", (at, at + 40 * MS))
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 3)", (at + 40 * MS, at + 99 * MS))
        for device in range(devices):
            rows = [(at + 60 * MS, at + 90 * MS, device, 1), (at + 90 * MS, at + 100 * MS, device, 2)]
            base.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?)", rows)
    base.commit()
    base.close()
    return path.read_bytes()


@pytest.mark.parametrize("short", [False, True])
def test_the_profile(tmp_path: Path, short: bool) -> None:
    data = export(tmp_path / "report.sqlite", short=short)
    assert nsys.recognises(data[:65536], data[-65536:]) == 2
    found = facts("nsys", data, "report.sqlite")
    assert named(found, "profile.step_ms") == [100.0]
    assert named(found, "profile.data_wait") == [0.4]
    assert named(found, "profile.communication_exposed") == [0.1]
    assert named(found, "profile.gemm") == [1.0]
    assert named(profiles.derive(incident(found)), "profile.verdict") == ["data-wait"]
    assert named(profiles.derive(incident(found)), "profile.bound.data_ms") == [60.0]


def test_devices_are_told_apart(tmp_path: Path) -> None:
    found = facts("nsys", export(tmp_path / "report.sqlite", devices=2), "report.sqlite")
    assert [fact.entity["gpu"] for fact in found if fact.name == "profile.busy"] == [0, 1]


def test_damage_is_said(tmp_path: Path) -> None:
    data = export(tmp_path / "report.sqlite")
    for bad in (data[:5000], data[:100] + b"\xff" * 4000 + data[4100:], b"SQLite format 3\0StringIds"):
        assert len(named(facts("nsys", bad, "report.sqlite"), "profile.unreadable")) <= 1


def test_views_and_endless_queries_are_not_run(tmp_path: Path) -> None:
    path = tmp_path / "evil.sqlite"
    base = sqlite3.connect(path)
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS start, x AS end FROM n"
    base.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}")
    base.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    base.commit()
    base.close()
    assert named(facts("nsys", path.read_bytes(), "evil.sqlite"), "profile.unreadable") == ["no kernel or copy in it"]


def test_a_report_that_was_not_exported_is_a_gap() -> None:
    assert nsys.recognises(b"QDSTRM\x00\x01", b"") == 2
    with pytest.raises(ValueError, match="nsys export"):
        list(nsys.facts(document(b"QDSTRM\x00\x01", "report.qdstrm")))
