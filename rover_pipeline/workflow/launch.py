"""How Snakemake is started on the workflow that comes with the package, and the profiles that come with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from rover_pipeline.errors import ConfigError, InTheWayError, did_you_mean
from rover_pipeline.format.meta import replace_file
from rover_pipeline.format.texts import parse_yaml


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
    """Run Snakemake on the packaged workflow, in the current directory. Returns its exit status.

    Args:
        cores: a number, or `all`; None = what the profile says.
        config: `KEY=VALUE`, values as in YAML; a key with dots is an option of a section: `odometry.world=gravity`.

    Raises:
        ConfigError: an argument cannot be understood.
    """
    if cores is not None and cores != "all" and not (cores.isdecimal() and int(cores) > 0):
        raise ConfigError(f"--cores {cores}: must be a number of processors, at least 1, or `all`")
    snakefile = workflow_folder() / "Snakefile"
    settings = [f"traces={json.dumps([os.path.abspath(path) for path in paths])}"]
    if outputs:
        settings.append(f"outputs={json.dumps(outputs.split(','))}")
    settings += _settings(config)
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile)]
    command += ["--profile", str(profile if Path(profile).is_dir() else profile_folder(profile))]
    command += ["--cores", cores] if cores else []
    command += ["--dry-run"] if dry_run else []
    command += ["--config", *settings]
    return subprocess.run(command, check=False).returncode


def _settings(items: Sequence[str]) -> list[str]:
    """`KEY=VALUE` for Snakemake, which takes no dots: options of one section become one mapping."""
    plain: list[str] = []
    nested: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        first, *others = key.split(".")
        if not equals or not all(part.isidentifier() for part in (first, *others)):
            raise ConfigError(f"--config {item}: must be KEY=VALUE, such as traces=PATH or odometry.world=gravity")
        if not others:
            plain.append(item)
            continue
        level = nested
        for part in (first, *others[:-1]):
            level = level.setdefault(part, {})
        level[others[-1]] = parse_yaml(text, f"--config {key}")
    if both := next((item for item in plain if item.partition("=")[0] in nested), None):
        raise ConfigError(
            f"--config {both}: {both.partition('=')[0]} is also given with dots; use one of the two forms"
        )
    return plain + [f"{key}={json.dumps(value)}" for key, value in nested.items()]


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
