"""Secrets, kept out of what is written down: messages, logs and records of runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

SECRET_NAME = re.compile(
    r"pass(word|wd|phrase|code)?$|pwd|secret|token(?!s|iz)|credential|bearer|cookie|signature|auth$|dsn$"
    r"|(api|access|private|account|shared|signing|encryption|master)[._-]?key|webhook|jaas"
    r"|^sig$|[._-]sig$|(^|[._-])sas([._-]|$)",
    re.IGNORECASE,
)
# To the last @ of the word: a password may hold any sign, and too much hidden is no harm.
USER_INFO = re.compile(r"(?<=://)[^/@:\s]{0,256}:\S{0,512}(?=@)")
TOKEN_INFO = re.compile(r"(?i)(?<=https://)[^/@:\s]{1,512}(?=@)")
ORACLE_LOGIN = re.compile(r"(?i)(?<=oracle:)(\w+:)[^/@\s]{0,256}/\S{0,512}(?=@)")
_GIVEN = r"(?:\{[^}]*\}|\"[^\"]*\"|'[^']*'|[^&;,\s\"']+)"
# What stands before these words is part of the name, and stays.
QUERY_SECRET = re.compile(
    r"(?i)((?:pass(?:word|wd|phrase|code)?|pwd|secret[\w.-]{0,120}|token|credential|key"
    r"|account[._-]?key[\w.-]{0,120}|(?<![a-z])sig|signature)\s?(?:=|->)\s?)"
    rf"({_GIVEN})"
)
# Behind a colon stands the rest of many a sentence: there a secret is in quotes or has a digit.
FIELD_SECRET = re.compile(
    r"(?i)((?:(?:password|passwd|passphrase|pwd|secret|authorization|[._-]token"
    r"|(?:api|access|private|account)[._-]?key[\w.-]{0,120})[\"']?\s?:\s*(?=[\"'{]|\S*\d))"
    r"|(?:password|token|secret)[\"']\s?:\s*|\bpassword (?=['\"])|\bidentified by )"
    rf"({_GIVEN})"
)
PRIVATE_KEY = re.compile(r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END|$)")
BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)([A-Za-z0-9+/=._~-]{8,})")
# Words of which a text with one of these forms has at least one.
FIELD_SIGNS = (
    "pass",
    "pwd",
    "secret",
    "auth",
    "token",
    "identified",
    "_key",
    "-key",
    ".key",
    "ikey",
    "skey",
    "ekey",
    "tkey",
)
SIGNS = (*FIELD_SIGNS, "@", "key", "sig", "credential", "bearer", "basic")
MASKED = "***"
FOLDERS = ("PWD", "OLDPWD")  # variables of every shell, which hold no password
WORDS = ("true", "false", "none", "null")  # whatever stands for a switch
_kept: set[str] = set()
SHORTEST = 4  # characters; masking every "a" would tell more than it hides


def keep_secret(*configs: Mapping[str, Any]) -> None:
    """Hide the secrets of these settings in all that this process prints and logs from now on."""
    _kept.update(value for config in configs for value in _secrets(config))


def mask(text: str, *configs: Mapping[str, Any]) -> str:
    """Hide what looks like a secret: values of settings and variables so named, parts of URLs."""
    known = _kept | _of_environment(frozenset(os.environ.items()))
    known |= {value for config in configs for value in _secrets(config)}
    for value in sorted(known, key=len, reverse=True):
        if value.isalpha():
            # The password `postgres` of a test database is no reason to hide `postgresql`.
            text = re.sub(rf"(?<![a-zA-Z]){re.escape(value)}(?![a-zA-Z])", MASKED, text)
        else:
            text = text.replace(value, MASKED)
    if not any(sign in (lowered := text.lower()) for sign in SIGNS):
        return text  # as most logs
    if "private key" in lowered:
        text = PRIVATE_KEY.sub(rf"\1{MASKED}", text)
    return "\n".join(map(_masked, text.split("\n")))


@lru_cache(maxsize=1)
def _of_environment(variables: frozenset[tuple[str, str]]) -> frozenset[str]:
    """Find the secrets of the environment, which is asked for with every line of a log."""
    return frozenset(_secrets({name: one for name, one in variables if name not in FOLDERS}))


def _masked(line: str) -> str:
    """Hide secrets in a line; only those forms are tried of which it has the signs."""
    lowered = line.lower()
    if "@" in line:
        line = ORACLE_LOGIN.sub(rf"\1{MASKED}", USER_INFO.sub(MASKED, line))
        line = TOKEN_INFO.sub(MASKED, line)
    if "bearer" in lowered or "basic" in lowered:
        line = BEARER.sub(rf"\1{MASKED}", line)
    if "=" in line or "->" in line:
        line = QUERY_SECRET.sub(rf"\1{MASKED}", line)
    if any(sign in lowered for sign in FIELD_SIGNS):
        line = FIELD_SECRET.sub(rf"\1{MASKED}", line)
    return line


def _secrets(value: Any, named: bool = False) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _secrets(item, named or bool(SECRET_NAME.search(str(name))))
    elif isinstance(value, list):
        for item in value:
            yield from _secrets(item, named)
    elif isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return
    else:
        known = [str(value)] if named else _inside(str(value))
        yield from (one for one in known if len(one) >= SHORTEST and one.lower() not in WORDS)


def _inside(text: str) -> Iterator[str]:
    """Find the secrets of a URL or a list of options, which may be told without it."""
    for found in USER_INFO.finditer(text):
        password = found[0].partition(":")[2]
        yield from (password, unquote(password))
    for found in QUERY_SECRET.finditer(text):
        if re.search(r"\s|>", found[1]):
            continue  # a condition of SQL
        yield from (found[2], unquote(found[2].strip("\"'{}")))
