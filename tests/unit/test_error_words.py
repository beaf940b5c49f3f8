"""Every error of ours ends with what to do, or says what must be there instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from singer_spark import errors

ROOT = Path(errors.__file__).parents[1]
FAMILIES = {name for name in vars(errors) if name.endswith("Error")}
# A second half, after a semicolon, says what to do; or the line itself says what is expected.
NEXT_STEP = re.compile(r";|\b(must|give|name|names|needs|set|holds|takes|goes|has|install|as in)\b")


def texts() -> Iterator[tuple[str, str]]:
    for package in ("singer_spark", "tap_spark_source", "target_spark_delta"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if text := text_of_error(node):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def text_of_error(node: ast.AST) -> str:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
        return ""
    return text_of(node.args[0]) if node.func.id in FAMILIES else ""


def text_of(node: ast.expr) -> str:
    """Return the fixed parts of a text; nothing of one that ends with another error's words."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr) or isinstance(node.values[-1], ast.FormattedValue):
        return ""
    return "".join(part.value for part in node.values if isinstance(part, ast.Constant))


@pytest.mark.parametrize(("place", "text"), list(texts()))
def test_an_error_tells_the_next_step(place, text):
    assert NEXT_STEP.search(text), f"{place}: {text!r} does not say what to do"
