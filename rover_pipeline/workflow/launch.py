"""How Snakemake is started on the workflow that comes with the package, and the profiles that come with it."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import site
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path, user_config_path

from rover_pipeline.errors import ConfigError, InTheWayError, did_you_mean
from rover_pipeline.format.meta import replace_file
from rover_pipeline.format.texts import parse_yaml
from rover_pipeline.format.trace import enclosing_sensor
from rover_pipeline.workflow.stamps import writable

#: Folder of Snakemake's notes and of the logs of the jobs.
WORKING = ".rover-pipeline"


def workflow_folder() -> Path:
    """The folder of the Snakefile: in the installed package, else the checkout the package is imported from."""
    package = Path(__file__).parents[1]
    installed = package / "bundle"
    return installed if (installed / "Snakefile").exists() else package.parent


def run_workflow(
    paths: Sequence[str],
    *,
    outputs: str | None,
    cores: str | None,
    profile: str,
    config: Sequence[str],
    dry_run: bool = False,
) -> int:
    """Run Snakemake on the packaged workflow. Returns its exit status.

    Snakemake works in a hidden folder beside the results, see `working_folder`, so that nothing appears in the current
    directory. With rules of the user it works in the current directory, since their commands may name files there.

    Args:
        cores: a number, or `all`; None = what the profile says.
        config: `KEY=VALUE`, values as in YAML; a key with dots is an option of a section: `odometry.world=gravity`.

    Raises:
        ConfigError: an argument cannot be understood.
    """
    if cores is not None and cores != "all" and not (cores.isdecimal() and int(cores) > 0):
        raise ConfigError(f"--cores {cores}: must be a number of processors, at least 1, or `all`")
    snakefile = workflow_folder() / "Snakefile"
    given = [os.path.abspath(os.path.expanduser(path)) for path in paths]
    settings = [f"traces={json.dumps(given)}"]
    if outputs:
        settings.append(f"outputs={json.dumps(outputs.split(','))}")
    typed = _settings(config)
    values = _absolute(typed)
    # Texts that name no file stay as they were typed, for Snakemake has its own way to read them.
    kept = {key for key, value in values.items() if isinstance(value, str) and value == typed.get(key)}
    settings += [f"{key}={value if key in kept else json.dumps(value)}" for key, value in values.items()]
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile)]
    command += ["--profile", os.path.abspath(profile) if Path(profile).is_dir() else str(profile_folder(profile))]
    if "extra_rules" not in values:
        root = values.get("output_root")
        command += ["--directory", str(working_folder(given, root if isinstance(root, str) else None))]
    command += ["--cores", cores] if cores else []
    command += ["--dry-run"] if dry_run else []
    command += ["--config", *settings]
    return subprocess.run(command, check=False, env=_environment()).returncode


def working_folder(given: Sequence[str], output_root: str | None) -> Path:
    """The folder in which Snakemake keeps its notes, `.snakemake/`, and the logs of the jobs, `logs/`.

    It is hidden in `output_root`, else in the folder that holds all that was given, so that the nodes of a cluster see
    it too. Where nothing can be written there it is in the user's cache.

    Args:
        given: absolute paths of recordings, of folders of them, or patterns.
    """
    places = [_before_pattern(path) for path in given]
    common = Path(output_root or os.path.commonpath(places))
    if (output_root or common.is_dir()) and writable(common) and enclosing_sensor(common) is None:
        folder = common / WORKING
    else:
        digest = hashlib.blake2b(json.dumps([output_root, *given]).encode(), digest_size=8).hexdigest()
        folder = user_cache_path("rover-pipeline") / "runs" / digest
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _before_pattern(path: str) -> str:
    """The folder that a pattern of paths is about; a path that is none stays as it is."""
    is_pattern = glob.has_magic(path) and not os.path.exists(path)
    return os.path.dirname(re.split(r"[*?\[]", path)[0]) if is_pattern else path


def _environment() -> dict[str, str]:
    """For Snakemake and its jobs, which work in another folder: they find a package that is not installed, too."""
    found = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    package = str(Path(__file__).parents[2])
    known = [os.path.abspath(path) for path in site.getsitepackages()]
    if package not in (*known, *found):
        found.insert(0, package)
    return {**os.environ, **({"PYTHONPATH": os.pathsep.join(found)} if found else {})}


#: Options that name files, by the names of the sections around them.
_FILES = (("output_root",), ("extra_rules",), ("radar", "calibration"), ("camera", "model", "path"), ("export", "root"))


def _absolute(values: dict[str, Any]) -> dict[str, Any]:
    """Options with the paths that they name from the current directory, where the user typed them."""
    parsed: dict[str, Any] = {}
    for key, value in values.items():
        names_files = any(key == path[0] for path in _FILES)
        parsed[key] = parse_yaml(value, f"--config {key}") if names_files and isinstance(value, str) else value
    if "exports" in values:
        section = parsed.setdefault("export", {})
        if isinstance(section, dict):
            section.setdefault("root", "exports")
    for *sections, last in _FILES:
        found: Any = parsed
        for name in sections:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, dict) and (value := found.get(last)):
            found[last] = [_path(each) for each in value] if isinstance(value, list) else _path(value)
    return parsed


def _path(value: object) -> str:
    return os.path.abspath(os.path.expanduser(str(value)))


def _settings(items: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` for Snakemake, which takes no dots: options of one section become one mapping, others stay texts."""
    plain: dict[str, Any] = {}
    nested: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        first, *others = key.split(".")
        if not equals or not all(part.isidentifier() for part in (first, *others)):
            raise ConfigError(f"--config {item}: must be KEY=VALUE, such as traces=PATH or odometry.world=gravity")
        if not others:
            plain[key] = text
            continue
        level = nested
        for part in (first, *others[:-1]):
            level = level.setdefault(part, {})
        level[others[-1]] = parse_yaml(text, f"--config {key}")
    if both := next((key for key in plain if key in nested), None):
        raise ConfigError(f"--config {both}={plain[both]}: {both} is also given with dots; use one of the two forms")
    return plain | nested


def profile_folder(name: str) -> Path:
    """The folder of a profile that comes with the package."""
    folder = workflow_folder() / "profiles"
    known = sorted(path.name for path in folder.iterdir())
    if name not in known:
        raise ConfigError(f"profile {name}: no such folder, and none of ours; {did_you_mean(name, known)}")
    return folder / name


def install_profile(folder: Path) -> Path:
    """Copy a profile to the user's Snakemake configuration, where `--profile NAME` finds it from any directory.

    The copy names the Snakefile, so no checkout is needed. A profile of the same name that differs is not touched.
    """
    target = user_config_path("snakemake") / folder.name / "config.yaml"
    text = (folder / "config.yaml").read_text(encoding="utf-8")
    text += f"\n# Added by `rover-pipeline profile {folder.name} --install`.\n"
    text += f"snakefile: {json.dumps(str(workflow_folder() / 'Snakefile'))}\n"
    if target.exists() and target.read_text(encoding="utf-8") != text:
        raise InTheWayError(f"{target}: exists and differs; move it away first")
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, text)
    return target
