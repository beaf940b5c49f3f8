"""The environment of each contestant: made once, kept in the cache, packages by pinned versions."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from singer_spark.engine.jars import cache_folder

ROOT = Path(__file__).parents[1]
_PACKAGES = ("singer_spark", "tap_spark_source", "target_spark_delta")
# Ours three times: Meltano gives each of its plugins an environment of its own.
OURS = ("ours", "ours-tap", "ours-target")
PINNED = {
    "meltano": ["meltano==4.4.1"],
    "script": ["pyspark==4.2.0", "delta-spark==4.4.0"],
    "dlt": [
        "dlt[deltalake,filesystem,sql_database]==1.31.0",
        "connectorx==0.4.6",
        "deltalake==1.6.6",
        "pyarrow==26.0.1",
        "sqlalchemy==2.1.8",
        "psycopg2-binary==2.9.13",
    ],
    "tap-postgres": ["meltanolabs-tap-postgres==0.10.0", "singer-sdk==0.54.9"],
    # A newer DuckDB takes the first row of each batch for a header, and the row is lost.
    "target-duckdb": ["target-duckdb==0.8.0", "duckdb==1.1.3"],
}


def environment() -> dict[str, str]:
    """Return what every child gets: ours, less what would slow Python or choose an engine."""
    unwanted = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in unwanted and not name.startswith(("MELTANO", "SINGER_SPARK_ENGINE"))
    }


def make(names: set[str]) -> dict[str, Path]:
    """Make the environments that are missing; return the folder of commands of each."""
    place = cache_folder() / "bench"
    place.mkdir(parents=True, exist_ok=True)
    with FileLock(place / "lock"):
        return {name: _ready(place / name) for name in sorted(names)}


def _ready(folder: Path) -> Path:
    """Make an environment where it is not as wanted; where only our code changed, just that."""
    packages, code = _wanted(folder.name)
    marker = folder / "made-of.json"
    known = json.loads(marker.read_text()) if marker.exists() else [None, None]
    if known != [packages, code]:
        print(f"making the environment {folder.name}", flush=True)
        marker.unlink(missing_ok=True)
        if known[0] != packages:
            shutil.rmtree(folder, ignore_errors=True)
            _uv("venv", "--python", sys.executable, folder)
            _install(folder, *packages[1:])
        if code:
            # uv takes a folder whose pyproject.toml is unchanged for unchanged.
            anew = ("--refresh-package", "singer-spark", "--reinstall-package", "singer-spark")
            _install(folder, "--no-deps", *anew, str(ROOT))
        marker.write_text(json.dumps([packages, code]))
    return folder / "bin"


def _wanted(name: str) -> tuple[list[str], str | None]:
    """Say of which Python and packages an environment is made, and of ours, of which code."""
    if name not in OURS:
        return [sys.version, *PINNED[name]], None
    digest = hashlib.sha256()
    files = [file for package in _PACKAGES for file in (ROOT / package).rglob("*")]
    for file in [*sorted(files), ROOT / "pyproject.toml"]:
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    lock = hashlib.sha256((ROOT / "requirements.lock").read_bytes()).hexdigest()
    constraint = ["--constraint", str(ROOT / "requirements.lock"), f"{ROOT}[postgres]"]
    return [f"{sys.version} {lock}", *constraint], digest.hexdigest()


def _install(folder: Path, *what: str) -> None:
    _uv("pip", "install", "--compile-bytecode", "--python", folder / "bin" / "python", *what)


def _uv(*arguments: object) -> None:
    command = [Path(sys.executable).with_name("uv"), *arguments, "--quiet"]
    done = subprocess.run(
        [str(part) for part in command],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"uv {arguments[0]} failed:\n{done.stderr[-2000:]}")
