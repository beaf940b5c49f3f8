"""Secrets, kept out of what is written down: messages, logs and records of runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)?$|pwd|secret|token|credential|(api|access|private|account|sas)[._-]?key"
    r"|signature|auth$|dsn$|webhook|jaas|^sig$|[._-]sig$",
    re.IGNORECASE,
)
# To the last @ of the word: a password may hold any sign, and too much hidden is no harm.
USER_INFO = re.compile(r"(?<=://)[^/@:\s]*:\S*(?=@)")
ORACLE_LOGIN = re.compile(r"(?i)(?<=oracle:)(\w+:)[^/@\s]*/\S*(?=@)")
QUERY_SECRET = re.compile(
    r"(?i)(?<![\w.])([\w.-]*(?:pass(?:word|wd|phrase)?|pwd|secret[\w.-]*|token|key|sig|signature)"
    r"\s?=\s?)(?:\{[^}]*\}|\"[^\"]*\"|'[^']*'|[^&;,\s]+)"
)
BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9+/=._~-]{8,}")
MASKED = "***"
FOLDERS = ("PWD", "OLDPWD")  # variables of every shell, which hold no password
SHORTEST = 4  # characters; masking every "a" would tell more than it hides


def mask(text: str, *configs: Mapping[str, Any]) -> str:
    """Hide what looks like a secret: values of settings and variables so named, parts of URLs."""
    env = {name: value for name, value in os.environ.items() if name not in FOLDERS}
    known = {value for config in (*configs, env) for value in _secrets(config)}
    for value in sorted(known, key=len, reverse=True):
        text = text.replace(value, MASKED)
    text = ORACLE_LOGIN.sub(rf"\1{MASKED}", USER_INFO.sub(MASKED, text))
    return BEARER.sub(rf"\1{MASKED}", QUERY_SECRET.sub(rf"\1{MASKED}", text))


def _secrets(value: Any, named: bool = False) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _secrets(item, named or bool(SECRET_NAME.search(str(name))))
    elif isinstance(value, list):
        for item in value:
            yield from _secrets(item, named)
    elif isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return
    elif named and len(str(value)) >= SHORTEST:
        yield str(value)
