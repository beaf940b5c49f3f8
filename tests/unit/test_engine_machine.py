"""Memory and cores: those of the machine, or of its container where that has less."""

from __future__ import annotations

import os

import pytest

from singer_spark.engine import machine
from singer_spark.engine.spec import _tuning
from singer_spark.errors import SettingsError
from singer_spark.settings import SparkSettings

MB = 2**20


@pytest.fixture
def linux(tmp_path, monkeypatch):
    """A machine with 64 GB and eight cores, whose control groups are files of the test."""
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "_MOUNT", tmp_path / "fs")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 64 * 1024 * MB // 4096}
    monkeypatch.setattr(machine.os, "sysconf", sizes.__getitem__)

    def write(groups, files):
        (tmp_path / "cgroup").write_text(groups)
        for name, text in files.items():
            path = tmp_path / "fs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    return write


def test_without_control_groups_the_machine_counts(linux):
    assert (machine.memory_mb(), machine.cores()) == (64 * 1024, 8)
    assert machine.driver_memory_mb() == 4096


@pytest.mark.parametrize("folder", ["", "a/", "a/b/"], ids=["root", "above", "own"])
def test_the_lowest_limit_above_a_process_counts(linux, folder):
    linux(
        "0::/a/b\n",
        {
            "memory.max": "max",
            "cpu.max": "max 100000",
            f"{folder}memory.max": 2048 * MB,
            f"{folder}cpu.max": "150000 100000",
        },
    )
    assert (machine.memory_mb(), machine.cores()) == (2048, 2)
    assert machine.driver_memory_mb() == 512


@pytest.mark.parametrize("path", ["docker/x/", ""], ids=["its own path", "seen as the root"])
@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
def test_the_first_version_of_control_groups_is_read_too(linux, path, mount):
    linux(
        "4:memory:/docker/x\n2:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n",
        {
            f"memory/{path}memory.limit_in_bytes": 4096 * MB,
            f"{mount}/{path}cpu.cfs_quota_us": 300000,
            f"{mount}/{path}cpu.cfs_period_us": 100000,
        },
    )
    assert (machine.memory_mb(), machine.cores()) == (4096, 3)


def test_no_limit_is_none(linux):
    linux(
        "4:memory:/\n2:cpu:/\n0::/\n",
        {
            "memory/memory.limit_in_bytes": 9223372036854771712,
            "cpu/cpu.cfs_quota_us": -1,
            "cpu/cpu.cfs_period_us": 100000,
        },
    )
    assert (machine.memory_mb(), machine.cores()) == (64 * 1024, 8)


def test_a_part_of_a_core_is_one(linux):
    linux("0::/\n", {"cpu.max": "20000 100000"})
    assert machine.cores() == 1


def test_too_little_memory_is_said_unless_the_user_knows_better(linux):
    linux("0::/\n", {"memory.max": 700 * MB})
    with pytest.raises(
        SettingsError, match=r"needs 1024 MB of memory, .* has 700 MB; give it more"
    ):
        machine.driver_memory_mb()
    given = SparkSettings.from_config({"spark_conf": {"spark.driver.memory": "600m"}})
    assert _tuning(given)["spark.driver.memory"] == "600m"


def test_a_system_without_affinity_counts_its_cores(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "none")
    assert machine.cores() == (os.cpu_count() or 2)
