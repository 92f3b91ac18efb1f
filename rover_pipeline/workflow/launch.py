"""How Snakemake is started on the workflow that comes with the package, and the profiles that come with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_config_path

from rover_pipeline.errors import ConfigError, InTheWayError, did_you_mean
from rover_pipeline.format.meta import replace_file


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
    """Run Snakemake on the packaged workflow, in the current directory. Returns its exit status."""
    snakefile = workflow_folder() / "Snakefile"
    settings = [f"traces={json.dumps([os.path.abspath(path) for path in paths])}"]
    if outputs:
        settings.append(f"outputs={json.dumps(outputs.split(','))}")
    for item in config:
        if "=" not in item:
            raise ConfigError(f"--config {item}: must be KEY=VALUE")
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile)]
    command += ["--profile", str(profile if Path(profile).is_dir() else profile_folder(profile))]
    command += ["--cores", cores] if cores else []
    command += ["--dry-run"] if dry_run else []
    command += ["--config", *settings, *config]
    return subprocess.run(command, check=False).returncode


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
