"""Ask a server for a connection first: Spark's own clients would try for minutes."""

from __future__ import annotations

import socket
from contextlib import suppress
from urllib.parse import urlsplit

from singer_spark.errors import TransientError

_CONNECT_PORT, _MASTER_PORT = 15002, 7077
_SECONDS = 10.0


def check_remote(remote: str) -> None:
    """Say at once that the server of `spark_remote` does not answer."""
    url = urlsplit(remote)
    try:
        _dial(url.hostname, url.port or _CONNECT_PORT)
    except (OSError, ValueError) as error:
        raise TransientError(
            f"spark_remote: no Spark Connect server answers at {url.hostname} ({error}); "
            "start it, or correct the address"
        ) from error


def check_master(master: str) -> None:
    """Say at once that none of the masters of a standalone cluster answers."""
    scheme, _, hosts = master.partition("://")
    if scheme != "spark":
        return
    for host in hosts.split(","):
        url = urlsplit(f"spark://{host}")
        with suppress(OSError, ValueError):
            _dial(url.hostname, url.port or _MASTER_PORT)
            return
    raise TransientError(
        f"spark_master: no Spark master answers at {hosts}; start it, or correct the address"
    )


def _dial(host: str | None, port: int) -> None:
    socket.create_connection((host or "", port), timeout=_SECONDS).close()
