"""Sessions: the only way from this process to Spark, which is always a Spark Connect server.

The server is an engine of ours, or the one that `spark_remote` names. Spark's client is imported
without pandas, which it asks for at once and we never use: half of the time of that import, and a
third of its memory.
"""

from __future__ import annotations

import atexit
import importlib
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from typing_extensions import override

from singer_spark.engine.failures import check_remote
from singer_spark.engine.lease import ENGINE, Lease, engines_at_hand, get_lease, hold
from singer_spark.engine.spec import Spec
from singer_spark.errors import TransientError, is_unreachable
from singer_spark.report import FinishedTasks, report_progress
from singer_spark.settings import SparkSettings
from singer_spark.spark_conf import GUARDS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# What Spark raises.
SPARK_ERRORS = (PySparkException,)

_lock = threading.Lock()
_session: SparkSession | None = None
_new_session: Callable[[], SparkSession] | None = None
_lease: Lease | None = None
_held: Lease | None = None


def hold_engine(settings: SparkSettings, urls: Iterable[str], engine: str) -> None:
    """Keep the engine of a pipe's other side alive until this process opens its session.

    The other side may be done before this one needs Spark for the first time.
    """
    global _held
    with _lock:
        if _session is None and _held is None and not settings.remote:
            _held = hold(Spec.of(settings, urls), engine)
            if _held:
                atexit.register(_held.end)


def open_session(
    settings: SparkSettings, *, urls: Iterable[str] = (), engine: str | None = None
) -> SparkSession:
    """Return the process's session, opened for the given source and table URLs if there is none.

    `engine` is the id of one that someone else of this pipe has started.
    """
    global _session, _new_session
    with _lock:
        if _session is None:
            # The functions of pyspark.sql ask for this before they look at a session.
            os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
            report_progress("the start of Spark")
            if settings.remote:
                _new_session = _remote_sessions(settings)
            else:
                spec = Spec.of(settings, urls)
                _new_session = _engine_sessions(spec, engine, settings.engine_idle)
            _session = _new_session()
            report_progress()
        return _session


def isolated() -> SparkSession:
    """Return a session with a configuration of its own, on the same engine.

    Commit metadata is a setting of the session, so every stream that commits needs one.
    """
    if _new_session is None:
        raise RuntimeError("open_session comes first")
    return _new_session()


def answer_of(result: DataFrame) -> pa.Table:
    """Return what a command has answered; it came with the command, unless it is large."""
    import pyarrow as pa

    relation = getattr(getattr(result, "_plan", None), "_plan", None)
    if relation is not None and relation.local_relation.data:
        return pa.ipc.open_stream(relation.local_relation.data).read_all()
    return result.toArrow()


def engine_for_pipe() -> str | None:
    """Return the id of this process's engine, for one that reads what it writes.

    The processes of a run know their engine. A file outlives an engine, so it gets no id.
    """
    if _lease is None or os.environ.get(ENGINE):
        return None
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(1).st_mode)
    except OSError:
        return None
    return _lease.engine if is_pipe else None


def lost_engine(error: BaseException) -> TransientError | None:
    """Return what to say of an error whose reason is that the engine is gone."""
    if _lease is None or not is_unreachable(str(error)):
        return None
    reason = _lease.why_it_ended()
    return TransientError(f"Spark's engine is gone: {reason}; run again") if reason else None


def _engine_sessions(
    spec: Spec, engine: str | None, idle_seconds: float
) -> Callable[[], SparkSession]:
    global _lease
    # It takes a while, as long as the engine starts.
    importing = threading.Thread(target=import_client, daemon=True)
    importing.start()
    lease = get_lease(spec, lambda: engines_at_hand(engine), idle_seconds)
    if reason := lease.wait():
        raise TransientError(f"Spark's engine does not fit its starter: {reason}; run again")
    _lease = lease
    atexit.register(lease.end)
    importing.join()  # two imports at once would meet half-way
    from singer_spark.engine.connect import EngineChannel, short_patience

    return lambda: _opened(EngineChannel(lease), short_patience())


def _remote_sessions(settings: SparkSettings) -> Callable[[], SparkSession]:
    check_remote(str(settings.remote))
    import_client()
    from singer_spark.engine.connect import RemoteSessions

    sessions = RemoteSessions(str(settings.remote))
    atexit.register(sessions.release)
    fixed = {**settings.conf, **{key: guard.value for key, guard in GUARDS.items()}}

    def open_one() -> SparkSession:
        session = _opened(sessions.channel())
        sessions.note(session)
        conf: Any = session.conf
        conf._set_all(configs=fixed, silent=True)  # in one request
        return session

    return open_one


def _opened(channel: Any, patience: Any = None) -> SparkSession:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    session: Any = ConnectSession.builder.channelBuilder(channel).create()
    client = session.client
    if patience:
        client.set_retry_policies([patience])
    # At the end of the process the lease is given back; a server that is gone must not hold it up.
    atexit.unregister(client._on_exit)
    handler: Any = FinishedTasks()
    session.registerProgressHandler(handler)
    opened: SparkSession = session
    return opened


_PANDAS, _TYPES = "pandas", "pandas.api.types"


class _Nothing:
    """The class of the data frames of a module that nobody has imported: there are none."""


class _Absent(ModuleType):
    """Stands for a module until someone needs more of it than its name."""

    @override
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == _TYPES:  # its functions are looked up long before one is called
            return lambda *values: self._imported(name)(*values)
        is_unknown = sys.modules.get(_PANDAS, self) is self
        return _Nothing if name == "DataFrame" and is_unknown else self._imported(name)

    def _imported(self, name: str) -> Any:
        _forget(self)
        return getattr(importlib.import_module(self.__name__), name)


def import_client() -> None:
    """Import Spark's client. pandas is imported when someone really asks for it."""
    absent: dict[str, ModuleType] = {}
    if _PANDAS not in sys.modules:
        pandas = _Absent(_PANDAS)
        pandas.__version__ = version(_PANDAS)  # type: ignore[attr-defined]
        absent = {_PANDAS: pandas, _TYPES: _Absent(_TYPES)}
    sys.modules.update(absent)
    try:
        import pyspark.sql.connect.session  # noqa: F401
    finally:
        for module in absent.values():
            _forget(module)


def _forget(module: ModuleType) -> None:
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]
