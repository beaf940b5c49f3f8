"""The places on which every state store is tested."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from singer_spark.state import PipelineState, StateStore, create_state_store
from singer_spark.storage.meltano import MeltanoObjects
from singer_spark.storage.objects import Expect

STATE = PipelineState(
    pipeline_name="shop-orders",
    watermark={"bookmarks": {"public-orders": {"replication_key_value": "2026-01-31 ü"}}},
    last_run_id="run-1",
    last_run_at="2026-01-31T10:00:00+00:00",
    run_count=1,
    metadata={"note": {"deep": [1, 2.5, None]}},
)


@dataclass(frozen=True)
class Place:
    """A store that is empty at first; `config` is None where only this process can reach it."""

    kind: str
    config: Any
    open: Callable[[], StateStore]

    @classmethod
    def of(cls, kind: str, config: Any) -> Place:
        return cls(kind, config, lambda: create_state_store(config))

    def damage(self, key: str, body: bytes) -> None:
        """Put bytes where a document belongs."""
        objects = self.open().objects
        if isinstance(objects, MeltanoObjects):
            start = objects.place
            objects, key = objects._objects, objects.locate(key).removeprefix(f"{start}/")
        objects.write(key, body, Expect.ANYTHING)


class MariaDB:
    """A MariaDB server of its own on a free port."""

    user, password = "keeper", "s3cret-of-my"

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mariadb-"))
        data = f"--datadir={self._folder}/data"
        account = [f"--user={'root' if os.geteuid() == 0 else os.environ.get('USER', '')}"]
        install = [
            "mariadb-install-db",
            "--no-defaults",
            "--auth-root-authentication-method=normal",
        ]
        subprocess.run([*install, data, *account], check=True, capture_output=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        statements = self._folder / "init.sql"
        statements.write_text(
            "CREATE DATABASE state CHARACTER SET latin1;\n"
            f"CREATE USER {self.user}@'127.0.0.1' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON state.* TO {self.user}@'127.0.0.1';\n"
        )
        server = ["mariadbd", "--no-defaults", data, *account, f"--port={self.port}"]
        options = ["--bind-address=127.0.0.1", f"--socket={self._folder}/socket"]
        self._process = subprocess.Popen(
            [*server, *options, f"--init-file={statements}"], stderr=subprocess.DEVNULL
        )
        self._wait()

    def _wait(self) -> None:
        import pymysql

        until = time.monotonic() + 60
        while True:
            try:
                login = {"user": self.user, "password": self.password, "database": "state"}
                pymysql.connect(host="127.0.0.1", port=self.port, **login).close()
            except pymysql.err.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
            else:
                return

    @property
    def url(self) -> str:
        return f"mysql://{self.user}:{self.password}@127.0.0.1:{self.port}/state"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        shutil.rmtree(self._folder)
