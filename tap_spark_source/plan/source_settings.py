"""What the settings say of the source: which one it is, and what of its options is ours. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from singer_spark.assignment import Assignment, is_same_source
from singer_spark.errors import StateError
from singer_spark.spark_conf import option_refusal
from tap_spark_source.settings import Settings, absolute_path, source_kind
from tap_spark_source.settings_schema import INCREMENTAL, KINDS

_SKIPS = "rows that cannot be read must fail the run, not vanish"
_LEFT_OUT = "the driver would leave rows out and tell nobody; use max_rows"
_OURS_IN_SESSION = {
    "time_zone": "the tap reads times in UTC",
    "sql_select_limit": "rows would be left out and nobody told; use max_rows",
}
_OURS = {
    "use source_url": "url path kafka.bootstrap.servers",
    "use source_user": "user",
    "use source_password": "password",
    "the tap writes the queries; use tables and where": "dbtable query",
    "use tables": "subscribe subscribepattern assign",
    "the state says where to start": (
        "startingoffsets startingtimestamp startingoffsetsbytimestamp "
        "startingoffsetsbytimestampstrategy"
    ),
    "the tap reads up to the end at its start": (
        "endingoffsets endingtimestamp endingoffsetsbytimestamp"
    ),
    "events of one partition stay together, or their order would be lost": (
        "minpartitions maxrecordsperpartition"
    ),
    "use slice_rows and max_rows": "maxoffsetspertrigger minoffsetspertrigger",
    "the tap never passes over lost events": "failondataloss",
    "use fetch_rows": "fetchsize",
    "the tap decides on types so that no value is bent": "customschema prefertimestampntz",
    "the tap cuts the ranges; use num_partitions": (
        "partitioncolumn lowerbound upperbound numpartitions"
    ),
    _SKIPS: "ignorecorruptfiles ignoremissingfiles ignoreinvalidpartitionpaths",
    "use replication_method LOG_BASED": "readchangefeed readchangedata",
    _LEFT_OUT: "maxrows rows_per_resultset",
}
_REASONS = {name: reason for reason, names in _OURS.items() for name in names.split()}
# Options by which files are left out: none that exists reads every row of a table.
_LIMITS = {
    **dict.fromkeys(("pathglobfilter", "modifiedbefore", "modifiedafter"), ""),
    "ignoreextension": "false",
    "avro.mapred.ignore.inputs.without.extension": "true",
}
_WITHOUT_FILES = ("jdbc", "kafka", "catalog")


def source_problems(config: Mapping[str, Any]) -> list[str]:
    """List what contradicts itself in the tap's own settings; the schema found the rest."""
    options = config.get("source_options") or {}
    problems = [*_option_problems(options)]
    url = config.get("source_url")
    if isinstance(url, str) and (source_kind(url) not in KINDS or not url.partition(":")[2]):
        known = ", ".join(f"{kind}:…" for kind in KINDS)
        problems.append(f"source_url: unknown kind of source; known are {known}")
    problems += _session_problems(url, options)
    batch = config.get("batch_config")
    if isinstance(batch, Mapping) and not (batch.get("storage") or {}).get("root"):
        where = "name a folder, file:///… or s3://bucket/…"
        problems.append(f"batch_config: storage.root is missing; {where}")
    if _needs_key(config):
        problems.append(
            "default_replication_method INCREMENTAL needs default_replication_key, or a "
            "replication_key in stream_options"
        )
    return problems


def _session_problems(url: Any, options: Mapping[str, Any]) -> list[str]:
    """List what the URL and the session must leave to the tap."""
    problems = []
    text = url if isinstance(url, str) else ""
    if re.match(r"(?i)jdbc:(mysql|mariadb):.*\bsessionvariables=", text):
        problems.append("source_url: sessionVariables cannot stand here; use source_options")
    if found := re.match(r"(?i)jdbc:.*[?&;](maxrows|rows_per_resultset)=", text):
        problems.append(f"source_url: {found[1]} cannot be set: {_LEFT_OUT}")
    given = next((v for key, v in options.items() if key.lower() == "sessionvariables"), "")
    return problems + [
        f"source_options: sessionVariables cannot set {name}: {reason}"
        for name, reason in _OURS_IN_SESSION.items()
        if name in str(given).lower()
    ]


def _needs_key(config: Mapping[str, Any]) -> bool:
    if config.get("default_replication_method") != INCREMENTAL:
        return False
    options = config.get("stream_options")
    keyed = isinstance(options, Mapping) and any(
        isinstance(value, Mapping) and value.get("replication_key") for value in options.values()
    )
    return not config.get("default_replication_key") and not keyed


def limiting_option(settings: Settings) -> str | None:
    """Name the option that keeps files of a table from being read, if there is one."""
    if settings.kind in _WITHOUT_FILES:
        return None
    for key, value in settings.options.items():
        if _LIMITS.get(key.lower(), "none") in ("", value.lower()):
            return f"source_options {key}"
    return None


def _option_problems(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options that are the tap's own, and those by which rows would vanish."""
    for key, value in options.items():
        name = key.lower()
        reason = _REASONS.get(name) or option_refusal(name)
        if name == "mode" and str(value).upper() == "DROPMALFORMED":
            reason = _SKIPS
        if reason:
            yield f"source_options: {key} cannot be set: {reason}"


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
