"""Spark's client, imported without pandas, which it asks for at once and we never use.

Half of the time of that import, and a third of its memory, would be pandas.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version
from types import ModuleType
from typing import Any

from typing_extensions import override

_PANDAS, _TYPES = "pandas", "pandas.api.types"


class _Nothing:
    """The class of the data frames of a module that nobody has imported: there are none."""


class _Absent(ModuleType):
    """Stands for a module until someone needs more of it than its name."""

    @override
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "DataFrame" and sys.modules.get(_PANDAS, self) is self:
            return _Nothing
        _forget(self)
        return getattr(importlib.import_module(self.__name__), name)


class _AbsentTypes(_Absent):
    """Functions of a module that is imported when one of them is called."""

    @override
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *values: super(_AbsentTypes, self).__getattr__(name)(*values)


def import_client() -> None:
    """Import Spark's client. pandas is imported when someone really asks for it."""
    absent: dict[str, ModuleType] = {}
    if _PANDAS not in sys.modules:
        pandas = _Absent(_PANDAS)
        pandas.__version__ = version(_PANDAS)  # type: ignore[attr-defined]
        absent = {_PANDAS: pandas, _TYPES: _AbsentTypes(_TYPES)}
    sys.modules.update(absent)
    try:
        import pyspark.sql.connect.session  # noqa: F401
    finally:
        for module in absent.values():
            _forget(module)


def _forget(module: ModuleType) -> None:
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]
