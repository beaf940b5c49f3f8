"""What tells a source from others: its own id where it has one, and its place. Pure.

A state belongs to one source. Neither user nor password nor options are part of its identity, so
that those may change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from singer_spark.assignment import Assignment, is_same_source
from singer_spark.errors import StateError
from tap_spark_source.settings import Settings, absolute_path

# Parameters of a JDBC URL that name the database; all others say how to get there.
_NAMES = ("database", "databasename", "db", "servicename", "instancename", "catalog")
_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306, "sqlserver": 1433}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A source as it is known again: `id` is what the database itself says, if it does."""

    place: str
    id: str | None = None

    def check(self, run: Assignment) -> None:
        """Fail where the state of a run belongs to another source."""
        known = run.source
        if known is None or is_same_source({"id": self.id, "place": self.place}, known):
            return
        change = f"the source is {self.place}, and the state belongs to {known.get('place')}"
        if self.id is not None and known.get("id") is not None:
            change = f"{self.place} is another database than before ({self.id}, not {known['id']})"
        raise StateError(f"{change}; {run.ways_on()}")


def place_of(settings: Settings) -> str:
    """Return where a source is, spelled in one way."""
    kind, _, rest = settings.url.partition(":")
    kind = kind.lower()
    if kind == "jdbc":
        return f"jdbc:{_database(rest)}"
    if kind == "kafka":
        servers = sorted({one.strip().lower() for one in rest.split(",") if one.strip()})
        return f"kafka:{','.join(servers)}"
    if kind == "catalog":
        return f"catalog:{rest.partition('.')[0]}"
    folder = re.sub(r"^s3n?://", "s3a://", absolute_path(rest))
    return f"{kind}:{_without_login(folder)}"


def _database(rest: str) -> str:
    """Return the driver, host, port and name of a database."""
    place, *options = re.split("[?;&]", rest)
    driver, _, address = place.partition(":")
    driver = driver.lower()
    # Oracle's driver takes user and password before an @ without slashes.
    address = _without_login(re.sub(r"^(thin|oci8?):[^@]*@", r"\1:@", address)).rstrip("/")
    if driver in ("derby", "sqlite") and not re.match(r"//|\w+:", address):
        address = absolute_path(address)
    if match := re.fullmatch(r"(//[^/:]+)(?::(\d+))?(/.*)?", address):
        port = match[2] or _PORTS.get(driver)
        address = match[1].lower() + (f":{port}" if port else "") + (match[3] or "")
    pairs = (option.partition("=") for option in options)
    named = {name.lower(): value for name, _, value in pairs if name.lower() in _NAMES}
    return f"{driver}:{address}" + "".join(f";{name}={named[name]}" for name in sorted(named))


def _without_login(address: str) -> str:
    return re.sub(r"//[^@/]*@", "//", address)
