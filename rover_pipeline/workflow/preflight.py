"""What is wrong with a command, told before Snakemake is started, which takes seconds to tell the same."""

from __future__ import annotations

import glob
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rover_pipeline.errors import ConfigError, FormatError, MissingExtraError
from rover_pipeline.format.texts import read_yaml
from rover_pipeline.format.trace import is_trace
from rover_pipeline.lookup import load
from rover_pipeline.workflow.rule_inputs import refusal

#: Recordings that are looked into. Those of a folder, or more of them, are looked into by the run.
_MOST = 8


def require_possible(given: Sequence[str], values: Mapping[str, Any], profile: Path) -> None:
    """Raise an error for recordings, options, outputs or a profile that no run can be made of.

    Args:
        given: absolute paths of recordings, of folders of them, or patterns.
        values: options.
        profile: folder of a Snakemake profile.

    Raises:
        FormatError: there is no such recording, or it lacks a sensor that an output needs.
        ConfigError: an option or an output is unknown.
        MissingExtraError: the profile needs a library that is not installed.
    """
    for path in given:
        if not os.path.isdir(path) and not (glob.has_magic(path) and glob.glob(path, recursive=True)):
            known = "no recording, and no capture that can be imported: .pcap, .osf, .bag, .mcap, .db3"
            raise FormatError(f"traces: {path}: {f'is {known}' if os.path.isfile(path) else 'no such directory'}")
    root = values.get("output_root")
    for path in map(str, [root] if root else given):
        if problem := refusal(path):
            raise ConfigError(problem)
    _require_executor(profile)
    flow_type, find = load("rover_pipeline.workflow.flow:Flow"), load("rover_pipeline.table:asked_outputs")
    here, table = Path.cwd(), load("rover_pipeline.table:TABLE")
    alone = len(given) <= _MOST and all(os.path.isdir(path) and is_trace(Path(path)) for path in given)
    flow = flow_type({**values, "traces": list(given)}, here, locate=alone)
    if flow.config.extra_rules:
        return  # which outputs there are only Snakemake knows
    names = [name for name in table if flow.enabled(name)]
    rules = [SimpleNamespace(output=flow.makes(name), input=[flow.needs(name)]) for name in names]
    exports = load("rover_pipeline.workflow.exports:Exports")(flow, here)
    if alone:
        flow.targets(rules, begins=False)
        exports.targets(begins=False)
    else:
        find(flow.config.outputs, [name[1:] for name in names])


def _require_executor(profile: Path) -> None:
    """Raise an error where a profile starts its jobs by a library that is not installed."""
    path = profile / "config.yaml"
    settings = read_yaml(path) if path.is_file() else None
    name = str(settings.get("executor", "local")) if isinstance(settings, dict) else "local"
    package = f"snakemake_executor_plugin_{name.replace('-', '_')}"
    if name not in ("local", "dryrun", "touch") and importlib.util.find_spec(package) is None:
        if name == "slurm":
            raise MissingExtraError(f"the profile {profile.name}", "slurm")
        raise ConfigError(f"the profile {profile.name}: needs the package {package.replace('_', '-')}")
