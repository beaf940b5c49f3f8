"""Finding pipeline files: by path, by name, by pattern; names that clash."""

from __future__ import annotations

from pathlib import Path

import pytest

from singer_spark.errors import SettingsError
from singer_spark.pipeline import (
    find_pipeline,
    find_pipelines,
    refuse_twins,
)
from singer_spark.pipeline.find import find_twins


def test_a_pipeline_is_found_by_path_or_by_name(tmp_path):
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "a.yml").touch()
    (folder / "b.yaml").touch()
    (tmp_path / "c.yml").touch()

    assert find_pipeline("a", tmp_path) == folder / "a.yml"
    assert find_pipeline("b", tmp_path) == folder / "b.yaml"
    assert find_pipeline("c.yml", tmp_path) == tmp_path / "c.yml"
    assert find_pipeline("pipelines/a.yml", tmp_path) == folder / "a.yml"
    assert find_pipeline(str(folder / "a.yml"), Path("/")) == folder / "a.yml"


def test_a_pipeline_not_found_lists_those_there_are(tmp_path):
    with pytest.raises(SettingsError, match="holds none") as caught:
        find_pipeline("x", tmp_path)
    assert caught.value.exit_code == 78

    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "orders.yml").touch()
    with pytest.raises(SettingsError, match="there are orders"):
        find_pipeline("x", tmp_path)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pipelines").mkdir()
    for name in ("shop-a", "shop-b", "other"):
        (tmp_path / "pipelines" / f"{name}.yml").write_text(f"name: {name}\n")
    return tmp_path


def test_patterns_find_each_file_once(folder):
    found = find_pipelines(["shop-*", "shop-b", "o?her"], folder)
    assert [path.stem for path in found] == ["shop-a", "shop-b", "other"]


def test_files_of_one_name_are_told_and_broken_ones_are_left_aside(folder):
    (folder / "pipelines" / "twin.yaml").write_text("name: other\nsource: {}\n")
    for name, text in {"broken": "{", "nameless": "source: {}\n", "list": "[1]\n"}.items():
        (folder / "pipelines" / f"{name}.yml").write_text(text)

    assert {path.name for path in find_twins(folder)} == {"other.yml", "twin.yaml"}
    with pytest.raises(SettingsError, match=r"other.yml and pipelines/twin.yaml have the same"):
        refuse_twins([folder / "pipelines" / "twin.yaml"], folder)
    refuse_twins([folder / "pipelines" / "shop-a.yml", Path("elsewhere.yml")], folder)


def test_files_named_together_must_differ_wherever_they_lie(folder):
    other = folder / "other" / "twin.yml"
    other.parent.mkdir()
    other.write_text((folder / "pipelines" / "shop-a.yml").read_text())
    named = [folder / "pipelines" / "shop-a.yml", other]
    with pytest.raises(SettingsError, match=r"pipelines/shop-a.yml and other/twin.yml have the sa"):
        refuse_twins(named, folder)
    refuse_twins([other, other], folder)
