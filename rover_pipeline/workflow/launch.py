"""How Snakemake is started on the workflow that comes with the package, and the profiles that come with it.

What is wrong with a command is reported before: Snakemake takes seconds to report the same.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import importlib.util
import json
import os
import re
import shlex
import site
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from platformdirs import user_cache_path, user_config_path

from rover_pipeline.caches import can_be_written
from rover_pipeline.errors import (
    ConfigError,
    FormatError,
    InTheWayError,
    MissingExtraError,
    RoverError,
    did_you_mean,
)
from rover_pipeline.format.files import make_folders, opened_regular, replace_file
from rover_pipeline.format.provenance import fingerprint
from rover_pipeline.format.texts import MAX_YAML_BYTES, parse_collection, parse_yaml, read_text, read_yaml
from rover_pipeline.format.trace import CONFIG, has_files, is_trace
from rover_pipeline.importers.table import say
from rover_pipeline.kinematics.options import RIG_FILES
from rover_pipeline.lookup import load
from rover_pipeline.workflow.interruptible import run_group
from rover_pipeline.workflow.needs import refusal
from rover_pipeline.workflow.worlds import nested

# A capture in the place of a recording: it is imported beside itself, once, and then a recording as any other.

#: Endings of captures -> the import that takes them.
_ENDINGS = {".osf": "ouster", ".pcap": "pcap", ".bag": "ros", ".mcap": "ros", ".db3": "ros"}
#: Files and folders that a folder is known by.
_FOLDERS = {"metadata.yaml": "ros", "velodyne_points": "kitti", "image_00": "kitti", "image_02": "kitti"}
#: Number of packets of a capture that are looked at: other devices may have sent the first ones. Tuned: by hand.
_PACKETS = 1000


def kind_of(path: Path) -> str:
    """The import that takes a path: `ouster`, `velodyne`, `ros` or `kitti`; "" where it is no capture."""
    if path.is_dir():
        found = [kind for name, kind in _FOLDERS.items() if (path / name).exists()]
        return found[0] if found and not is_trace(path) else ""
    kind = _ENDINGS.get(path.suffix.lower(), "") if path.is_file() else ""
    return ("velodyne" if _is_velodyne(path) else "ouster") if kind == "pcap" else kind


def trace_of(capture: Path, folder: Path | None) -> Path:
    """Where the recording of a capture goes: `NAME.trace` in a folder, or beside it, NAME without the file's ending."""
    return (folder or capture.parent) / f"{capture.name if capture.is_dir() else capture.stem}.trace"


def with_imports(paths: Sequence[str], kinds: Mapping[str, str], root: Path | None, *, dry_run: bool) -> list[str]:
    """Paths with the recordings of captures in the places of these, which go to the folder `root`, or beside the
    captures. `kinds`: path of a capture -> the import that takes it. A dry run only says what would be imported."""
    found = []
    for path in paths:
        if path not in kinds:
            found.append(path)
            continue
        trace = trace_of(Path(path), root)
        if dry_run and not has_files(trace):
            say(f"rover-pipeline: would import {path} as {trace}")
        else:
            found.append(str(imported(Path(path), kinds[path], trace)))
    return found


def imported(capture: Path, kind: str, trace: Path) -> Path:
    """The recording of a capture, which is imported unless it is there already. Raises InTheWayError where there is
    something else, or what was imported from another capture, and RoverError where nothing can be written there, or the
    capture cannot be imported."""
    if has_files(trace):
        if not _is_from(trace, capture):
            raise InTheWayError(f"{trace}: was not imported from {capture} as it is now; move it away")
        return trace
    if not can_be_written(trace.parent):
        command = f"rover-pipeline import {kind} {capture} -o TRACE"
        raise RoverError(
            f"{trace.parent}: cannot be written to; `--config output_root=DIR` puts the recording into DIR, "
            f"or `{command}` where you like"
        )
    make_folders(trace.parent)
    words = ["import", kind, str(capture), "-o", str(trace)]
    try:
        with redirect_stdout(sys.stderr):
            given = load("rover_pipeline.cli:build_parser")().parse_args(words)
            load("rover_pipeline.importers.apart:run_import")(given)
    except RoverError as error:
        if "--partial" not in str(error):
            raise
        command = shlex.join(["rover-pipeline", *words, "--partial"])
        raise RoverError(f"{error}: `{command}`, and then the same run again") from error
    say(f"{trace}: imported from {capture.name}")
    return trace


def _is_from(trace: Path, capture: Path) -> bool:
    """Whether a recording was made from a capture as it is now, as its `config.yaml` and the fingerprints say."""
    path = trace / CONFIG
    origins = parse_collection(read_text(path, MAX_YAML_BYTES), str(path)).get("imported") if path.is_file() else None
    for origin in origins if isinstance(origins, list) else [origins]:
        sources = origin.get("from") if isinstance(origin, dict) else None
        if isinstance(sources, dict) and sources:
            return all(_is_as_it_was(capture, str(name), state) for name, state in sources.items())
    return False


def _is_as_it_was(capture: Path, name: str, state: object) -> bool:
    places = [capture] if name == capture.name else [capture.parent / name, *capture.glob(f"*/{name}")]
    return any(fingerprint(place) == state for place in places if place.exists())


def _is_velodyne(capture: Path) -> bool:
    """Whether one of the first packets of a `.pcap` is of a Velodyne."""
    names = ("velodyne:datagrams", "velodyne_packets:is_data")
    datagrams, is_data = (load(f"rover_pipeline.importers.{name}") for name in names)
    with opened_regular(capture) as descriptor, open(descriptor, "rb", closefd=False) as file:
        found = datagrams(file, capture, True, lambda text: None)
        return any(is_data(each.data) for each in islice(found, _PACKETS))


#: Maximum number of recordings that are looked into. Those of a folder, or more, are looked into by the run. Schedule.
_MAX_RECORDINGS = 8


def workflow_folder() -> Path:
    """The folder of the Snakefile: in the installed package, else the checkout the package is imported from."""
    package = Path(__file__).parents[1]
    installed = package / "bundle"
    return installed if (installed / "Snakefile").exists() else package.parent


def run_workflow(
    paths: Sequence[str],
    *,
    outputs: str | None,
    cores: str | None,  # a number, or `all`; None = what the profile says.
    profile: str,
    # `KEY=VALUE`, values as in YAML; a key with dots is an option of a section: `odometry.world=gravity`.
    config: Sequence[str],
    dry_run: bool = False,
    verbose: bool = False,  # show Snakemake's own lines too, which its log has anyway.
) -> int:
    """Run Snakemake on the packaged workflow. Returns its exit status.

    Snakemake works in a folder of the user's cache, see `working_folder`: it trusts what it finds where it works. With
    rules of the user that are in the current directory it works there, since their commands may name files in it.
    """
    if cores is not None and cores != "all" and not (cores.isdecimal() and int(cores) > 0):
        raise ConfigError(f"--cores {cores}: must be a number of processors, at least 1, or `all`")
    snakefile = workflow_folder() / "Snakefile"
    given = [os.path.abspath(os.path.expanduser(path)) for path in paths]
    values = _absolute(_settings(config))
    folder = profile_folder(profile)
    root = values.get("output_root")
    kinds = {path: kind for path in given if (kind := kind_of(Path(path)))}
    options = values | ({"outputs": outputs} if outputs else {})
    require_possible([path for path in given if path not in kinds], options, folder)
    given = with_imports(given, kinds, Path(root) if isinstance(root, str) else None, dry_run=dry_run)
    if not given:
        return 0
    settings = [f"traces={json.dumps(given)}"]
    if outputs:
        settings.append(f"outputs={json.dumps(outputs.split(','))}")
    settings += [f"{key}={json.dumps(value)}" for key, value in values.items()]
    command = python("rover_pipeline.workflow.interruptible", "--snakefile", str(snakefile))
    command += local_arguments() if folder == profile_folder("local") else ["--profile", str(folder)]
    command += ["--workflow-profile", "none"]
    working = working_folder(given, root if isinstance(root, str) else None)
    rules = values.get("extra_rules") or []
    if any(Path(each).is_relative_to(Path.cwd()) for each in ([rules] if isinstance(rules, str) else rules)):
        working = Path.cwd()
    command += ["--cores", cores] if cores else []
    command += ["--dry-run", "--quiet", "host", "reason", "rules"] if dry_run else []
    command += ["--verbose"] if verbose else []
    command += ["--config", *settings]
    return run_group(command, environment(working), working)


def working_folder(given: Sequence[str], output_root: str | None) -> Path:
    """The folder in which Snakemake keeps its notes, `.snakemake/`, and the logs of the jobs, `logs/`.

    It is in the user's cache, one for each folder of results, and never beside recordings: whoever made these could
    have put a `.snakemake` with code there. Without a cache that can be written it is a new temporary folder. `given`:
    absolute paths of recordings, of folders of them, or patterns.
    """
    patterns = {path for path in given if glob.has_magic(path) and not os.path.exists(path)}
    folders = [os.path.dirname(re.split(r"[*?\[]", path)[0]) if path in patterns else path for path in given]
    results = output_root or os.path.commonpath(folders)
    digest = hashlib.blake2b(os.fsencode(results), digest_size=8).hexdigest()
    folder = user_cache_path("rover-pipeline") / "runs" / digest
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="rover-pipeline-"))


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module, which is never taken from the folder that it runs in (`-P`)."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(working: Path) -> dict[str, str]:
    """For Snakemake, its jobs and their children, which work in another folder.

    They find a package that is not installed, and no module in the folders that they work in. Steps of the user are
    found by PYTHONPATH, whose folders are named here by absolute paths. Where the user has no folder for caches, as
    with HOME=/dev/null, they are in the working folder.
    """
    found = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    package = str(Path(__file__).parents[2])
    known = [os.path.abspath(path) for path in site.getsitepackages()]
    if package not in (*known, *found):
        found.insert(0, package)
    # An empty PYTHONPATH is none, but one of an empty part stands for the folder of each process.
    changed = {"PYTHONPATH": os.pathsep.join(found), "PYTHONSAFEPATH": "1"}
    if not can_be_written(user_cache_path()):
        changed["XDG_CACHE_HOME"] = str(working / ".snakemake" / "cache")
    return {**os.environ, **changed}


#: Options that name files, by the names of the sections around them.
_FILES = (("output_root",), ("extra_rules",), ("radar", "calibration"), ("camera", "model", "path"), ("export", "root"))


def _absolute(values: dict[str, Any]) -> dict[str, Any]:
    """Options, whose paths begin now at the current directory, where the user typed them."""
    if "exports" in values and isinstance(section := values.setdefault("export", {}), dict):
        section.setdefault("root", "exports")
    for *sections, last in _FILES:
        found: Any = values
        for name in sections:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, dict) and (value := found.get(last)):
            found[last] = [_path(each) for each in value] if isinstance(value, list) else _path(value)
    if isinstance(rig := values.get("rig"), str) and rig.endswith(RIG_FILES):
        values["rig"] = _path(rig)
    return values


def _path(value: object) -> str:
    return os.path.abspath(os.path.expanduser(str(value)))


def _settings(items: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` for Snakemake, which takes no dots: options of one section become one mapping."""
    found: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not all(part.isidentifier() for part in key.split(".")):
            raise ConfigError(f"--config {item}: must be KEY=VALUE, such as traces=PATH or odometry.world=gravity")
        found[key] = parse_yaml(text, f"--config {key}")
    if both := next((key for key in found if any(each.startswith(f"{key}.") for each in found)), None):
        raise ConfigError(f"--config {both}: is also given with dots; use one of the two forms")
    return nested(found)


def local_arguments() -> list[str]:
    """The profile `local` as arguments: Snakemake would say that it uses a profile."""
    arguments: list[str] = []
    for key, value in read_yaml(profile_folder("local") / "config.yaml").items():
        values = value if isinstance(value, list) else [] if value is True else [value]
        arguments += [f"--{key}", *map(str, values)]
    return arguments


def profile_folder(name: str) -> Path:
    """The folder of a profile: one that comes with the package, else the folder of this path.

    A folder of the name of ours is not taken, for Snakemake evaluates what a profile says: `./local` names it.
    """
    folder = workflow_folder() / "profiles"
    known = sorted(path.name for path in folder.iterdir())
    if name not in known and Path(name).is_dir():
        return Path(name).absolute()
    if name not in known:
        raise ConfigError(f"profile {name}: no such folder, and none of ours; {did_you_mean(name, known)}")
    return folder / name


def install_profile(folder: Path) -> Path:
    """Copy a profile to the user's Snakemake configuration, where `--profile NAME` finds it from any directory.

    The copy names the Snakefile, so no checkout is needed. A profile of the same name that differs is not touched.
    """
    target = user_config_path("snakemake") / folder.name / "config.yaml"
    text = read_text(folder / "config.yaml")
    text += f"\n# Added by `rover-pipeline profile {folder.name} --install`.\n"
    text += f"snakefile: {json.dumps(str(workflow_folder() / 'Snakefile'))}\n"
    if target.exists() and read_text(target) != text:
        raise InTheWayError(f"{target}: exists and differs; move it away first")
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, text)
    return target


def require_possible(given: Sequence[str], values: Mapping[str, Any], profile: Path) -> None:
    """Raise an error where no run can be made of recordings, options and a Snakemake profile: FormatError where there
    is no such recording, or it lacks a sensor that an output needs; ConfigError where an option or an output is
    unknown; MissingExtraError where the profile needs a library that is not installed. `given`: absolute paths of
    recordings, of folders of them, or patterns; `profile`: its folder."""
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
    alone = len(given) <= _MAX_RECORDINGS and all(os.path.isdir(path) and is_trace(Path(path)) for path in given)
    flow = flow_type({**values, "traces": list(given)}, here, locate=alone)
    if rules := flow.config.extra_rules:
        if missing := next((path for path in rules if not os.path.isfile(path)), ""):
            raise ConfigError(f"config: extra_rules: {missing}: no such file; name a .smk file of your rules")
        return  # which outputs there are only Snakemake knows
    names = [name for name in table if flow.enabled(name)]
    declared = [SimpleNamespace(output=flow.makes(name), input=[flow.needs(name)]) for name in names]
    exports = load("rover_pipeline.workflow.exports:Exports")(flow, here)
    if alone:
        flow.targets(declared, begins=False)
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
