"""Names as somebody might choose them who wants to run SQL of their own."""

from __future__ import annotations

import re

SMUGGLED = "reflect('java.lang.System', 'getenv', 'HOME')"
NAMES = (
    "a{}b",
    "{0}{x}",
    "it's",
    "back`tick",
    "``",
    'double"quote',
    "back\\slash\\",
    "new\nline",
    "tab\tand\rreturn",
    "-- comment",
    "/* comment */",
    "${spark.app.name}",
    "%s%(x)s",
    "a.b",
    "semi; drop table t",
    f"x`, {SMUGGLED} as `y",
    f"x', {SMUGGLED}, '",
    f"{{}}, {SMUGGLED}, {{",
    f"a:int> , {SMUGGLED}",
    "ünï \u202e\u2028 \U0001f600",
    " lead and trail ",
    "select",
    "*",
)
_QUOTED = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'", re.DOTALL)


def bare_sql(sql: str) -> str:
    """Return what of a statement is neither a quoted name nor a text."""
    return _QUOTED.sub(" ", sql)
