"""Finding pipeline files: by path, by name, by pattern."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from singer_spark.errors import SettingsError
from singer_spark.pipeline.document import read_document

PATTERN_SIGNS = set("*?[")


def list_pipeline_files(working_folder: Path) -> list[Path]:
    """List the files in `pipelines/`; a folder that does not exist holds none."""
    folder = working_folder / "pipelines"
    return sorted(path for path in folder.glob("*.y*ml") if path.suffix in (".yml", ".yaml"))


def find_pipeline(argument: str, working_folder: Path) -> Path:
    """Find a pipeline file by its path, or by its name in `pipelines/`."""
    folder = working_folder / "pipelines"
    candidates = [working_folder / argument]
    if "/" not in argument:
        candidates += [folder / f"{argument}{suffix}" for suffix in (".yml", ".yaml")]
    for path in candidates:
        if path.is_file():
            return path
    raise SettingsError(
        f"no pipeline file {argument}; give a file's path or its name in pipelines/ "
        f"({_offer(working_folder)})"
    )


def find_pipelines(arguments: Collection[str], working_folder: Path) -> list[Path]:
    """Find pipeline files by shell patterns over the names in `pipelines/`; without any, all."""
    if not arguments:
        return list_pipeline_files(working_folder)
    found: dict[Path, None] = {}
    for argument in arguments:
        if not is_pattern(argument):
            found[find_pipeline(argument, working_folder)] = None
            continue
        files = list_pipeline_files(working_folder)
        matching = [path for path in files if fnmatchcase(path.stem, argument)]
        if not matching:
            raise SettingsError(
                f"no pipeline in pipelines/ matches {argument}; {_offer(working_folder)}"
            )
        found |= dict.fromkeys(matching)
    return list(found)


def is_pattern(argument: str) -> bool:
    """Say whether an argument is a pattern, and no name."""
    return bool(PATTERN_SIGNS & set(argument))


def refuse_twins(paths: Iterable[Path], working_folder: Path) -> None:
    """Refuse files whose pipeline has the name of another, here or in `pipelines/`."""
    paths = list(paths)
    twins = find_twins(working_folder)
    twins |= _find_twins(paths, working_folder)
    for path in paths:
        if problem := twins.get(path.resolve()):
            raise SettingsError(problem)


def find_twins(working_folder: Path) -> dict[Path, str]:
    """Find the files in `pipelines/` whose pipelines have one name, with the problem of each."""
    return _find_twins(list_pipeline_files(working_folder), working_folder)


def _find_twins(paths: Iterable[Path], working_folder: Path) -> dict[Path, str]:
    by_name: dict[str, dict[Path, None]] = defaultdict(dict)
    for file in paths:
        by_name[_name_in(file)][file.resolve()] = None
    problems: dict[Path, str] = {}
    here = working_folder.resolve()
    for files in by_name.values():
        shown = [file.relative_to(here) if file.is_relative_to(here) else file for file in files]
        named = " and ".join(map(str, shown))
        problem = f"name: {named} have the same name; give each one of its own"
        problems |= {file: problem for file in files if len(files) > 1}
    return problems


def _name_in(path: Path) -> str:
    """Look up the name in a file; that of a broken file is its own."""
    try:
        document = read_document(path)
    except SettingsError:
        return str(path)
    name = document.get("name") if isinstance(document, Mapping) else None
    return str(name or path)


def _offer(working_folder: Path) -> str:
    known = [path.stem for path in list_pipeline_files(working_folder)]
    return (
        f"there are {', '.join(known)}" if known else f"{working_folder / 'pipelines'} holds none"
    )
