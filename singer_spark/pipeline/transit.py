"""Whether a connection to a source, or to the state store, tells who answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_POSTGRES = re.compile(
    r"(?:jdbc:postgresql|postgres(?:ql)?(?:\+\w+)?):(?://(?P<hosts>[^/?]*))?(?P<rest>.*)", re.DOTALL
)
_LOCAL = re.compile(r"(localhost|127(\.\d+){3}|\[?::1\]?|)(:\d*)?", re.IGNORECASE)
_SURE = "verify-full"


def transit_advice(config: Mapping[str, Any]) -> str | None:
    """Say what is missing for a PostgreSQL server that is not on this machine to be known."""
    return _advice(config.get("source_url"), config.get("source_options"), "source_url")


def state_advice(state: str | Mapping[str, Any]) -> str | None:
    """Say the same of a state store that is such a server."""
    return _advice(state.get("url") if isinstance(state, Mapping) else state, None, "state")


def _advice(url: object, options: object, setting: str) -> str | None:
    found = _POSTGRES.fullmatch(url) if isinstance(url, str) else None
    if found is None:
        return None
    hosts = (found["hosts"] or "").rpartition("@")[2].split(",")
    mode = _mode(found["rest"], options)
    if all(_LOCAL.fullmatch(host) for host in hosts) or mode == _SURE:
        return None
    told = f"sslmode {mode} does" if mode else "without sslmode the connection does"
    return f"{told} not prove who the server is; set sslmode={_SURE} in {setting}"


def _mode(rest: str, options: object) -> str | None:
    if stated := re.findall(r"[?&]sslmode=([\w-]*)", rest):
        return str(stated[-1]).lower()  # as the driver reads them
    given = options.get("sslmode") if isinstance(options, Mapping) else None
    return str(given).lower() if given else None
