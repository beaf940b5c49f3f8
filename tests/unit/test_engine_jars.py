"""Jars are code: what was added, changed or may be written by others is not loaded."""

from __future__ import annotations

import hashlib

import pytest

from singer_spark.engine import jars
from singer_spark.errors import SettingsError

GROUP = ("org.example:thing:1.0",)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache that holds one package of the user's own."""
    monkeypatch.setenv("SINGER_SPARK_CACHE", str(tmp_path / "cache"))
    name = hashlib.sha256("\n".join(GROUP).encode()).hexdigest()[:16]
    folder = tmp_path / "cache" / "jars" / name
    folder.mkdir(parents=True, mode=0o755)
    (folder / "thing-1.0.jar").write_bytes(b"code")
    jars.note_sums(folder)
    for path in (folder, folder.parent, folder.parent.parent):
        path.chmod(0o755)
    return folder


def test_only_the_resolved_jars_are_used(folder):
    (folder / "added.jar").write_bytes(b"evil")
    assert jars.resolve([GROUP]) == [folder / "thing-1.0.jar"]


def test_a_jar_that_was_changed_or_removed_is_refused(folder):
    jar = folder / "thing-1.0.jar"
    jar.write_bytes(b"codE")
    with pytest.raises(SettingsError, match="not the one that was published"):
        jars.resolve([GROUP])
    jar.unlink()
    with pytest.raises(SettingsError, match="not the one that was published"):
        jars.resolve([GROUP])


def test_of_our_own_jars_the_package_knows_the_content(folder, monkeypatch):
    known = {" ".join(GROUP): {"thing-1.0.jar": "0" * 64}}
    monkeypatch.setattr(jars, "known_jars", lambda: known)
    with pytest.raises(SettingsError, match="not the one that was published"):
        jars.resolve([GROUP])


def test_the_package_lists_what_it_names_itself():
    named = {" ".join(group) for group in jars.named_groups()}
    assert named == set(jars.known_jars())
    for listed in jars.known_jars().values():
        assert listed
        assert all(len(digest) == 64 for digest in listed.values())


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_cache_that_others_may_write_is_refused(folder, mode, depth):
    (folder, *folder.parents)[depth].chmod(mode)
    with pytest.raises(SettingsError, match="other users may write"):
        jars.resolve([GROUP])


def test_a_list_cannot_name_files_elsewhere(folder):
    (folder / jars.SUMS).write_text(f"{'0' * 64}  ../../evil.jar\n")
    with pytest.raises(SettingsError, match="damaged"):
        jars.resolve([GROUP])
