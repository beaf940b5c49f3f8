"""What tap and target share as Singer plugins: settings errors, version, signals."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import click
from jsonschema import ValidationError
from singer_sdk.plugin_base import JSONSchemaValidator, PluginBase, _ConfigInput
from typing_extensions import override

from singer_spark.errors import SettingsError
from singer_spark.printable import guard_logs
from singer_spark.settings import map_problems, spark_problems


class SparkPlugin(PluginBase):
    """A Singer plugin whose settings errors are one line and exit with 78."""

    package_name: ClassVar[str] = "singer-spark"  # type: ignore[misc]

    @override
    def __init__(self, *args: Any, **settings: Any) -> None:
        guard_logs()
        super().__init__(*args, **settings)

    @classmethod
    def settings_problems(cls, config: Mapping[str, Any]) -> list[str]:
        """List what contradicts itself in a config that fits its schema."""
        return [*spark_problems(config), *map_problems(config)]

    @override
    def _validate_config(self, *, raise_errors: bool = True) -> list[str]:
        # Null means that nothing is set, so that the default holds.
        self._config = {name: one for name, one in self._config.items() if one is not None}
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
    if error.validator == "required":
        missing = [name for name in rule if name not in instance]
        return "; ".join(f"{'.'.join(filter(None, [where, name]))} is required" for name in missing)
    if error.validator == "type":
        wanted = rule if isinstance(rule, str) else " or ".join(rule)
        return f"{where or 'the config'} must be of type {wanted}"
    if error.validator == "enum":
        return f"{where} must be one of {', '.join(map(str, rule))}"
    if error.validator == "additionalProperties":
        schema: Any = error.schema
        known = schema.get("properties", {})
        unknown = ", ".join(name for name in instance if name not in known)
        return f"{where}: unknown key {unknown}; known are {', '.join(known)}"
    if error.validator in ("anyOf", "oneOf"):
        return f"{where} has a value of none of the kinds that it may be; look at its description"
    return f"{where} must satisfy {error.validator} {rule}"
