"""What the documents say is what the code does: tables, exit codes, links, make targets."""

from __future__ import annotations

import re

import pytest
import yaml
from click.testing import CliRunner

from singer_spark import errors
from singer_spark.cli import main
from singer_spark.secrets import SECRET_NAME
from tools import docs

README = (docs.ROOT / "README.md").read_text(encoding="utf-8")
MELTANO = yaml.safe_load((docs.ROOT / "meltano.yml").read_text(encoding="utf-8"))
PAGES = ["README.md", "CHANGELOG.md", *(f"docs/{p.name}" for p in docs.ROOT.glob("docs/*.md"))]
EXTRACTOR, LOADER = MELTANO["plugins"]["extractors"][0], MELTANO["plugins"]["loaders"][0]
BOTH = pytest.mark.parametrize(
    ("key", "definition"), [("tap", EXTRACTOR), ("target", LOADER)], ids=["tap", "target"]
)


@pytest.mark.parametrize("file", docs.TABLES)
def test_tables_are_those_of_the_code(file):
    text = (docs.ROOT / file).read_text(encoding="utf-8")
    assert text == docs.rendered(file), f"{file} is out of date: run make fmt"


@BOTH
def test_every_setting_has_its_row_in_the_readme(key, definition):
    section = README.split(f"<!-- settings:{key} -->")[1].split("<!-- /settings -->")[0]
    assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == list(
        docs.settings_of(docs.PLUGINS[key])
    )


@BOTH
def test_meltano_knows_the_plugin(key, definition):
    plugin = docs.PLUGINS[key]
    assert definition["name"] == definition["executable"] == plugin.name
    assert definition["namespace"] == plugin.name.replace("-", "_")
    assert "pip_url" not in definition
    assert definition["capabilities"] == [item.value for item in plugin.capabilities]
    settings = {setting["name"]: setting for setting in definition["settings"]}
    assert list(settings) == list(docs.settings_of(plugin))
    assert all(setting["label"] and setting["description"] for setting in settings.values())
    assert set(definition["config"]) <= set(settings)


@BOTH
def test_meltano_kinds_follow_the_schema(key, definition):
    schemas = docs.settings_of(docs.PLUGINS[key])
    for setting in definition["settings"]:
        schema = schemas[setting["name"]]
        kind = (set(schema["type"]) - {"null"}).pop()
        if "enum" in schema:
            assert [option["value"] for option in setting["options"]] == schema["enum"]
        elif schema.get("format") == "date-time":
            assert setting["kind"] == "date_iso8601"
        else:
            assert setting["kind"] == {"number": "decimal"}.get(kind, kind)
        assert setting.get("sensitive", False) == schema.get("secret", False)


def test_exit_codes_are_those_of_the_errors():
    def below(kind):
        return {kind.exit_code}.union(*(below(child) for child in kind.__subclasses__()))

    told = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    known = below(errors.SingerSparkError) | {errors.EXIT_SIGINT, errors.EXIT_SIGTERM, 0}
    assert told == known


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    folder = (docs.ROOT / page).parent
    text = (docs.ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert link.startswith("https://") or (folder / link).exists(), link


def test_make_targets_exist():
    makefile = (docs.ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\S+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_commands_exist():
    listed = CliRunner().invoke(main, ["--help"]).output
    for command in re.findall(r"`?singer-spark ([a-z]+)", README):
        assert re.search(rf"^  {command} ", listed, re.MULTILINE), command


@pytest.mark.parametrize("package", ["singer_spark", "tap_spark_source", "target_spark_delta"])
def test_every_module_has_its_place_in_the_architecture(package):
    page = (docs.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split(f"**{package}**")[1].split("\n\n")[1]
    told = re.findall(r"`(\w+)/?`", "".join(re.findall(r"^\|(.*?)\|", section, re.MULTILINE)))
    found = {path.stem for path in (docs.ROOT / package).glob("[!_]*") if is_module(path)}
    assert sorted(told) == sorted(found)


def is_module(path):
    return path.suffix == ".py" or (path / "__init__.py").exists()


def test_every_setting_that_can_hold_a_secret_is_one_for_meltano():
    maps = {"stream_maps", "stream_map_config"}
    source = {"source_url", "source_password", "source_options"}
    wanted = {
        "tap-spark-source": source | maps | {"spark_conf", "spark_remote"},
        "target-spark-delta": maps | {"spark_conf", "spark_remote"},
    }
    for plugin in (EXTRACTOR, LOADER):
        settings = {one["name"]: one.get("sensitive", False) for one in plugin["settings"]}
        told = {name for name, is_sensitive in settings.items() if is_sensitive}
        assert told == wanted[plugin["name"]]
        # Whatever comes later is to be judged by its name.
        assert not [one for one in settings if SECRET_NAME.search(one) and one not in told]
