"""Secrets, kept out of what is written down: messages, logs and records of runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
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
QUERY_SECRET = re.compile(
    r"(?i)(?<![\w.-])([\w.-]{0,120}(?:pass(?:word|wd|phrase|code)?|pwd|secret[\w.-]*|token"
    rf"|credential|key|account[._-]?key[\w.-]*|sig|signature)\s?(?:=|->)\s?)({_GIVEN})"
)
# Behind a colon stands the rest of many a sentence: only names that are no words of one count.
FIELD_SECRET = re.compile(
    r"(?i)(?<![\w.-])([\w.-]{0,120}(?:password|passwd|passphrase|pwd|secret|authorization"
    r"|[._-]token|(?:api|access|private|account)[._-]?key[\w.-]*)[\"']?\s?:\s*"
    rf"|(?:password|token|secret)[\"']\s?:\s*|\bpassword (?=['\"])|\bidentified by )({_GIVEN})"
)
PRIVATE_KEY = re.compile(r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END|$)")
BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)([A-Za-z0-9+/=._~-]{8,})")
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
    env = {name: value for name, value in os.environ.items() if name not in FOLDERS}
    known = _kept.union(value for config in (*configs, env) for value in _secrets(config))
    for value in sorted(known, key=len, reverse=True):
        if value.isalpha():
            # The password `postgres` of a test database is no reason to hide `postgresql`.
            text = re.sub(rf"(?<![a-zA-Z]){re.escape(value)}(?![a-zA-Z])", MASKED, text)
        else:
            text = text.replace(value, MASKED)
    for form in (USER_INFO, TOKEN_INFO):
        text = form.sub(MASKED, text)
    for form in (ORACLE_LOGIN, PRIVATE_KEY, BEARER, QUERY_SECRET, FIELD_SECRET):
        text = form.sub(rf"\1{MASKED}", text)
    return text


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
