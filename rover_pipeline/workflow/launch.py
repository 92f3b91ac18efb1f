"""From a command to the workflow, and from a rule of the workflow to its step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rover_pipeline.errors import ERROR_MARK, ConfigError, InTheWayError, RoverError, did_you_mean
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
    from platformdirs import user_config_path

    target = user_config_path("snakemake") / folder.name / "config.yaml"
    text = (folder / "config.yaml").read_text(encoding="utf-8")
    text += f"\n# Added by `rover-pipeline profile {folder.name} --install`.\n"
    text += f"snakefile: {json.dumps(str(workflow_folder() / 'Snakefile'))}\n"
    if target.exists() and target.read_text(encoding="utf-8") != text:
        raise InTheWayError(f"{target}: exists and differs; move it away first")
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, text)
    return target


def run_rule(
    name: str,
    inputs: Sequence[Path],
    outputs: Sequence[Path],
    *,
    request: str,
    version: int | None,
    threads: int,
    log: Path | None,
    loaded: Callable[[], object] = lambda: None,
) -> int:
    """Run a step for a rule: `outputs` are files of one virtual sensor, `inputs` say where the raw sensors are.

    `loaded` is called when all modules are there and the bulk of the work begins.
    """
    # Before numpy is imported: BLAS and OpenMP pools read these once.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    from rover_pipeline.engine.execute import Request, run_step
    from rover_pipeline.engine.parallel import DASK_VARIABLE, DaskOptions
    from rover_pipeline.engine.step import find_step
    from rover_pipeline.format.trace import link_trace
    from rover_pipeline.options import InputOptions

    with logged(log) as file:
        described = find_step(name)
        if version is not None and version != described.version:
            raise ConfigError(
                f"step {name} is version {described.version} here, version {version} where the workflow was read; "
                "install the same rover-pipeline on every node"
            )
        folder = outputs[0].parent
        trace = folder.parent
        for source in {path.parent.parent for path in inputs} - {trace}:
            link_trace(source, trace)
        try:
            content = json.loads(request)
        except ValueError as error:
            raise ConfigError(f"--request: is not valid JSON: {error}") from error
        result = run_step(
            described,
            trace,
            folder.name,
            Request(content.get("options", {}), InputOptions.parse(content.get("input", {}), "input")),
            threads=threads,
            dask=DaskOptions.model_validate_json(os.environ.get(DASK_VARIABLE, "{}")),
            stamps=tuple(path.name for path in outputs if path.name.startswith(".")),
            log=file,
            loaded=loaded,
        )
        for path in outputs:
            if not path.exists():
                raise RoverError(f"{path}: is an output of the rule, but {name} did not make it")
        made = f"{result.samples} samples, {result.invalid} invalid"
        if described.products:
            made = ", ".join(described.products)
        line = f"{folder}: {made}, {result.seconds:.2f} s"
        for stream in filter(None, (sys.stderr, file)):
            print(line, file=stream)
    return 0


@contextmanager
def logged(log: Path | None) -> Iterator[TextIO | None]:
    """The opened log. An error goes there with its traceback, and on to the terminal, where its message is shown."""
    if log is None:
        yield None
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        try:
            yield file
        except Exception as error:
            from rover_pipeline.cli import describe

            traceback.print_exc(file=file)
            print(f"{ERROR_MARK}{describe(error)}", file=file)
            raise
