"""The URL of a source: its login, taken out of it, and whether the server proves who it is. Pure.

User and password stand before an @, among the parameters, or, as Oracle has it, before the place.
What looks like a secret and cannot be taken out is refused rather than kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from singer_spark.errors import SettingsError

ORACLE = re.compile(r"(jdbc:oracle:\w+:)([^/@]*)(?:/(.*))?@(.*)", re.IGNORECASE | re.DOTALL)
HOST_AND_PORT = re.compile(r"[^/?;#:@]*:\d*[/?;#]|\[")
USER = {"user", "username", "uid"}
PASSWORD = {"password", "passwd", "pwd", "pass"}
SECRET = re.compile(
    r"[?&;:,(/]\s*([\w.-]*(?:pass(?!file)|pwd|secret|token|credential|(?:api|access|private|"
    r"account|sas|client)_?key)[\w.-]*)\s*=\s*[^\s&;,)]",
    re.IGNORECASE,
)


class Login(NamedTuple):
    """A URL without its login, and the login."""

    url: str
    user: str | None = None
    password: str | None = None


def take_login(url: str) -> Login:
    """Take user and password out of a URL."""
    login = _from_oracle(url) or _from_user_info(url)
    place, user, password = _from_parameters(login.url)
    if left := SECRET.search(place):
        raise SettingsError(
            f"the source's URL holds {left[1]}, which cannot be taken out of it; leave it out and "
            "give it as source_options, its value by an environment variable"
        )
    return Login(place, login.user or user, login.password or password)


def _from_oracle(url: str) -> Login | None:
    if not (found := ORACLE.fullmatch(url)):
        return None
    start, user, password, place = found.groups()
    return Login(f"{start}@{place}", user or None, password)


def _from_user_info(url: str) -> Login:
    """Take what stands before the @; a password may hold signs that a URL would escape."""
    start, slashes, rest = url.partition("//")
    first = rest.find("@")
    before = rest[:first] if first >= 0 else ""
    if not slashes or not before or (":" not in before and re.search(r"[/?;#]", before)):
        return Login(url)
    if HOST_AND_PORT.match(before):
        if re.search(r"[?;]", before):
            return Login(url)  # an @ among the parameters
        raise SettingsError(
            "the source's URL has an @ behind its host; write the signs / and @ of a password as "
            "%2F and %40, or leave the password out"
        )
    tail = re.search(r"[?;]", rest[first:])
    end = rest.rfind("@", 0, first + tail.start() if tail else None)
    user, _, password = rest[:end].partition(":")
    place = f"{start}//{rest[end + 1 :]}"
    return Login(place, unquote(user) or None, unquote(password) or None)


def _from_parameters(url: str) -> Login:
    """Take them from ;name=value as from ?name=value&…; a value may hold the other's signs."""
    mark = re.search(r"[?;]", url)
    if mark is None:
        return Login(url)
    place, query = url[: mark.start()], url[mark.end() :]
    is_query = mark[0] == "?"
    parts = query.split("&") if is_query else re.findall(r"(?:\{[^}]*\}|[^;{])+", query)
    kept, known = [], {}
    for part in parts:
        name, _, value = part.partition("=")
        kind = _kind(name.strip().lower())
        if kind:
            known[kind] = unquote(value) if is_query else re.sub(r"^\{(.*)\}$", r"\1", value)
        else:
            kept.append(part)
    rest = mark[0] + ("&" if is_query else ";").join(kept) if kept else ""
    return Login(place + rest, known.get("user"), known.get("password"))


def _kind(name: str) -> str | None:
    return "user" if name in USER else "password" if name in PASSWORD else None


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
    what = f"sslmode {mode} does" if mode else "without sslmode the connection does"
    return f"{what} not prove who the server is; set sslmode={_SURE} in {setting}"


def _mode(rest: str, options: object) -> str | None:
    if stated := re.findall(r"[?&]sslmode=([\w-]*)", rest):
        return str(stated[-1]).lower()  # as the driver reads them
    given = options.get("sslmode") if isinstance(options, Mapping) else None
    return str(given).lower() if given else None
