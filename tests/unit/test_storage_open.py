"""Which store a URL, a path or a mapping means, and what names none."""

from __future__ import annotations

import pytest

from singer_spark.errors import SettingsError
from singer_spark.state import create_state_store
from singer_spark.storage.folder import FolderObjects


class TestChoice:
    @pytest.mark.parametrize(
        "config",
        [
            "{}/s",
            "file://{}/s",
            "file://localhost{}/s",
            {"url": "{}/s"},
            {"type": "file", "path": "{}/s"},
        ],
    )
    def test_a_folder_by_path_url_or_mapping(self, config, tmp_path):
        def fill(text):
            return text.format(tmp_path) if "{}" in text else text

        filled = (
            fill(config) if isinstance(config, str) else {k: fill(v) for k, v in config.items()}
        )
        store = create_state_store(filled)
        assert isinstance(store.objects, FolderObjects)
        assert store.objects.place == f"{tmp_path}/s"

    def test_an_unknown_scheme_lists_the_known_ones_and_hides_the_rest(self):
        with pytest.raises(SettingsError) as caught:
            create_state_store("mongodb://me:do-not-tell@host/db")
        assert caught.value.exit_code == 78
        for scheme in ("file", "s3", "gs", "az", "sqlite", "postgresql", "mysql", "meltano+s3"):
            assert f"{scheme}://" in caught.value.message
        assert "mongodb" in caught.value.message
        assert "do-not-tell" not in caught.value.message

    def test_keys_in_an_s3_url_are_refused_and_not_repeated(self):
        for scheme in ("s3", "meltano+s3"):
            with pytest.raises(SettingsError, match="AWS_ACCESS_KEY_ID") as caught:
                create_state_store(f"{scheme}://AKIA:do-not-tell@lake/state")
            assert "do-not-tell" not in caught.value.message

    @pytest.mark.parametrize(
        "config",
        [
            {},
            {"type": "s3"},
            {"type": "nothing", "path": "x"},
            {"url": "x", "colour": "red"},
            {"url": "s3://b/x", "colour": "red"},
            {"url": "s3://b/x", "region": 5},
            "file://host/folder",
            "s3://",
            "",
        ],
    )
    def test_what_names_no_place_is_error_78(self, config):
        with pytest.raises(SettingsError, match="state"):
            create_state_store(config)
