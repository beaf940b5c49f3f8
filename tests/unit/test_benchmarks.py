"""Benchmarks that have a limit fail beyond it."""

from __future__ import annotations

import sys

import pytest

from benchmarks import merge, shapes


@pytest.mark.parametrize(
    ("rates", "peak", "beyond"),
    [
        ((60, 100), 499, []),
        ((40, 100), 499, ["validation takes more than 50% of the speed"]),
        ((60, 100), 501, [f"{shape.name}: 501 MB, above 500 MB" for shape in shapes.SHAPES]),
    ],
    ids=["within", "validation", "memory"],
)
def test_shapes_tell_what_is_beyond_its_limit(monkeypatch, tmp_path, rates, peak, beyond):
    checked, unchecked = rates

    def rate(_folder, _shape, _scale, *, validate_records=True):
        return shapes._Found(checked if validate_records else unchecked, 1, peak)

    monkeypatch.setattr(shapes, "_rate", rate)
    assert shapes.run(tmp_path, 1) == beyond


@pytest.mark.parametrize(("ratio", "code"), [(1.9, False), (2.1, True)])
def test_a_merge_that_grows_with_its_table_fails(monkeypatch, ratio, code):
    monkeypatch.setattr(sys, "argv", ["merge"])
    monkeypatch.setattr(merge, "merge", lambda *_: ratio)
    with pytest.raises(SystemExit) as ended:
        merge.main()
    assert ended.value.code == code
