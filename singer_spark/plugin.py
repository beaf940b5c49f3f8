"""What tap and target share as Singer plugins: Spark's settings, settings errors, signals."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import click
from jsonschema import ValidationError
from singer_sdk import typing as th
from singer_sdk.plugin_base import JSONSchemaValidator, PluginBase, _ConfigInput
from typing_extensions import override

from singer_spark.errors import SettingsError
from singer_spark.secrets import keep_secret
from singer_spark.settings import DEFAULT_MASTER, map_problems, spark_problems
from singer_spark.shown import choose_values
from singer_spark.text import guard_logs

# Settings of the SDK that can hold a secret: what values are hashed with, for one.
_SECRET_SETTINGS = ("stream_maps", "stream_map_config")


class SparkPlugin(PluginBase):
    """A Singer plugin whose settings errors are one line and exit with 78."""

    package_name: ClassVar[str] = "singer-spark"  # type: ignore[misc]

    @override
    def __init__(self, *args: Any, **settings: Any) -> None:
        guard_logs()
        super().__init__(*args, **settings)
        choose_values(shows=bool(self.config.get("show_values")))

    @classmethod
    def settings_problems(cls, config: Mapping[str, Any]) -> list[str]:
        """List what contradicts itself in a config that fits its schema."""
        return [*spark_problems(config), *map_problems(config)]

    @override
    @classmethod
    def append_builtin_config(cls, config_jsonschema: dict[str, Any]) -> None:
        super().append_builtin_config(config_jsonschema)
        for name in _SECRET_SETTINGS:
            config_jsonschema["properties"][name] |= {"secret": True, "writeOnly": True}

    @override
    def _validate_config(self, *, raise_errors: bool = True) -> list[str]:
        # Null means that nothing is set, so that the default holds.
        self._config = {name: one for name, one in self._config.items() if one is not None}
        keep_secret(self._config)
        schema = self.config_jsonschema
        self.append_builtin_config(schema)
        self._config = _with_whole_numbers(self._config, schema)
        validator = JSONSchemaValidator(schema)
        problems = [_explain(error) for error in validator.iter_errors(self._config)]
        try:
            problems += self.settings_problems(self._config)
        except (AttributeError, TypeError, ValueError):
            # Of values of other kinds there is no more to say.
            if not problems:
                raise
        if problems and raise_errors:
            raise SettingsError(problems)
        for name in sorted(self._config.keys() - schema["properties"].keys()):
            self.logger.warning("Setting %s is unknown and ignored", name)
        return problems

    @override
    @classmethod
    def cb_config(
        cls, ctx: click.Context, param: click.Option, value: tuple[str, ...]
    ) -> _ConfigInput:
        """Read the config files, later ones over earlier ones; ENV means the environment."""
        config: dict[str, Any] = {}
        for name in value:
            if name != "ENV":
                config |= read_json_object(name, "config")
        return _ConfigInput(config=config, parse_env="ENV" in value)

    @override
    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:
        self.logger.warning("Ended by signal %d", signum)
        sys.exit(128 + signum)


def _with_whole_numbers(value: Any, schema: Mapping[str, Any]) -> Any:
    """Make 4.0 the whole number that JSON Schema takes it for, where one is wanted."""
    if isinstance(value, dict):
        known, other = schema.get("properties", {}), schema.get("additionalProperties")
        other = other if isinstance(other, dict) else {}
        return {
            name: _with_whole_numbers(one, known.get(name, other)) for name, one in value.items()
        }
    kinds = schema.get("type", ())
    is_wanted = "integer" in kinds and "number" not in kinds
    return int(value) if is_wanted and isinstance(value, float) and value.is_integer() else value


def read_json_object(
    name: str, what: str, *, parse: Callable[[str], Any] = json.loads
) -> dict[str, Any]:
    """Read a JSON object from a file, or explain why not."""
    try:
        value = parse(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            f"{what} file {name}: {error.strerror}; check its name and its permissions"
        ) from error
    except ValueError as error:
        raise SettingsError(f"{what} file {name} is not JSON; check it with a JSON tool") from error
    except RecursionError as error:
        raise SettingsError(
            f"{what} file {name} is nested too deeply to be read; give one of fewer levels"
        ) from error
    if not isinstance(value, dict):
        raise SettingsError(f"{what} file {name} must hold a JSON object")
    return value


def _explain(error: ValidationError) -> str:
    """Name the setting and the rule it breaks, never its value, which may be a secret."""
    where = ".".join(str(part) for part in error.absolute_path)
    rule: Any = error.validator_value
    instance: Any = error.instance
    schema: Any = error.schema
    match error.validator:
        case "required":
            missing = (".".join(filter(None, [where, one])) for one in rule if one not in instance)
            return "; ".join(f"{name} is required" for name in missing)
        case "type":
            wanted = rule if isinstance(rule, str) else " or ".join(rule)
            return f"{where or 'the config'} must be of type {wanted}"
        case "enum":
            return f"{where} must be one of {', '.join(map(str, rule))}"
        case "additionalProperties":
            known = schema.get("properties", {})
            unknown = ", ".join(name for name in instance if name not in known)
            return f"{where}: unknown key {unknown}; known are {', '.join(known)}"
        case "anyOf" | "oneOf":
            return f"{where} has a value of the wrong kind; look at its description"
        case _:
            return f"{where} must satisfy {error.validator} {rule}"


SHOW_VALUES = th.Property(
    "show_values",
    th.BooleanType,
    default=False,
    title="Show values",
    description=(
        "Let errors and logs quote values of records. They are kept in records of runs, and "
        "alerts and OpenLineage events repeat them."
    ),
)

SPARK = th.PropertiesList(
    th.Property(
        "spark_master",
        th.StringType,
        default=DEFAULT_MASTER,
        title="Spark master",
        description="local[4], spark://host:7077; for YARN and Kubernetes use spark_remote.",
    ),
    th.Property(
        "spark_remote",
        th.StringType,
        secret=True,
        title="Spark Connect server",
        description="A Spark Connect server such as sc://host:15002; excludes spark_master.",
    ),
    th.Property(
        "spark_conf",
        th.ObjectType(additional_properties=True),
        default={},
        secret=True,
        title="Spark configuration",
        description="Any Spark configuration, except what the product's promises rest on.",
    ),
    th.Property(
        "spark_packages",
        th.ArrayType(th.StringType),
        default=[],
        title="Maven packages",
        description=(
            "More Maven coordinates. Delta, S3 and the drivers of known JDBC URLs are added "
            "by themselves."
        ),
    ),
    th.Property(
        "spark_jars",
        th.ArrayType(th.StringType),
        default=[],
        title="Local jars",
        description="Local jars; with these nothing is resolved from a repository.",
    ),
    th.Property(
        "engine_idle",
        th.StringType,
        title="Keep Spark warm",
        description=(
            "How long Spark stays for the next run, such as 15m; SINGER_SPARK_ENGINE_IDLE sets it "
            "too. Unset, it ends with the run."
        ),
    ),
)
