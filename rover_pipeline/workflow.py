"""What the Snakemake rules look up: traces, sensors, options and the command of a step. No maths, no processing.

`rules/common.smk` gives these methods the short names that rules are written in.
"""

from __future__ import annotations

import glob
import hashlib
import inspect
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rover_pipeline.config import DEFAULT_OUTPUTS, Config
from rover_pipeline.errors import ConfigError, FormatError, InTheWayError, did_you_mean
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.trace import find_traces, has_files
from rover_pipeline.format.virtual import in_the_way

#: How a job learns how to spread its work: not part of its command, which would rerun it when changed.
DASK_VARIABLE = "ROVER_PIPELINE_DASK"

#: Begins the last line of the log of a job that failed.
ERROR_MARK = "error: "

_MADE = re.compile(r"/_([^/]+)/" + re.escape(META) + "$")


def workflow_folder() -> Path:
    """The folder of the Snakefile: in the installed package, else the checkout the package is imported from."""
    package = Path(__file__).parent
    installed = package / "workflow"
    return installed if (installed / "Snakefile").exists() else package.parent


class SensorInput:
    """Input function of a rule: the files of a sensor that are there, so that a step can name what is missing."""

    #: Snakemake asks for it at every job, and Python takes long to find it out.
    __signature__ = inspect.Signature([inspect.Parameter("wildcards", inspect.Parameter.POSITIONAL_ONLY)])

    def __init__(self, flow: Flow, sensor: str, channels: tuple[str, ...]) -> None:
        self.flow, self.sensor, self.channels = flow, sensor, channels

    def __call__(self, wildcards: Any) -> list[str]:
        results = Path("/") / wildcards.trace
        if self.sensor in self.flow.made:
            return [str(results / self.sensor / META)]  # published last, it stands for the whole sensor
        folder = self.flow.traces.get(results, results) / self.sensor
        if self.flow.is_demo(results):
            return [str(folder / META)]
        # The companion index of a compressed channel, and a sidecar, change a result as much as the channel does.
        names = [*self.channels, *(f"{name}_i" for name in self.channels), f"{self.sensor}.json"]
        found = [META, *(name for name in names if (folder / name).exists())]
        return [str(folder / name) for name in found]


class Flow:
    """The configuration and the traces of one run of the workflow.

    Attributes:
        config: the validated configuration.
        traces: directory that results go to -> directory of the recording. The same unless `output_root` is set.
        made: names of the virtual sensors that rules make.
        places: directories of what was asked for, once `targets` has been called.
        started: when this run began, seconds since the epoch.
    """

    #: Sensors of the simulated trace, which may not exist yet.
    demo_sensors = ("camera", "imu", "lidar", "radar")

    def __init__(self, values: Mapping[str, Any], folder: Path | None = None) -> None:
        self.config = Config.parse(values)
        self.made: set[str] = set()
        self.places: list[str] = []
        self.started = time.time()
        here = folder or Path.cwd()
        self.demo = here / "demo"
        if self.config.traces is None:
            if has_files(self.demo) and read_provenance(self.demo / "_truth") is None:
                raise InTheWayError(f"{self.demo}: is not a simulated trace of ours; give traces=PATH, or move it away")
            self.traces = {self.demo: self.demo}
        else:
            root = self.config.output_root
            self.traces = locate_traces(self.config.traces, here, here / root if root else None)
        os.environ[DASK_VARIABLE] = self.config.dask.model_dump_json()

    def is_demo(self, results: Path) -> bool:
        """Whether a trace is the simulated one, whose sensors may not exist yet."""
        return self.config.traces is None and results == self.demo

    def sensor(self, sensor: str, *channels: str) -> SensorInput:
        """Input of a rule: a sensor of the trace, raw or virtual."""
        return SensorInput(self, sensor, channels)

    def virtual(self, sensor: str, *channels: str, options: str = "") -> list[str]:
        """Output of a rule: a virtual sensor with these channels, and an empty file that names its options.

        Because of that file other options are another output: they are noticed from any working directory, not only
        where Snakemake remembers what it did. `ts` and `valid` come with every sensor and are not listed: files are
        what a long dry run spends its time on.
        """
        self.made.add(sensor)
        digest = hashlib.blake2b(self._request(options).encode(), digest_size=6).hexdigest()
        names = [*channels, META, f".options-{digest}"]
        return [f"/{{trace}}/{sensor}/{name}" for name in names]

    def options(self, section: str = "") -> Callable[[Any], str]:
        """Parameter of a rule: all that may change its result, as JSON. A callable, for the sake of the braces."""
        text = self._request(section)
        return lambda wildcards: text

    def step(self, name: str) -> str:
        """Shell command of a rule that runs a step."""
        from rover_pipeline.steps import find_step

        python = shlex.quote(sys.executable)
        return (
            f"{python} -m rover_pipeline step {shlex.quote(name)} --step-version {find_step(name).version} "
            "--input {input:q} --output {output:q} --request {params.options:q} --threads {threads} --log {log:q}"
        )

    def targets(self, rules: Iterable[Any]) -> list[str]:
        """Files that were asked for, of every wanted virtual sensor of every trace.

        Raises:
            ConfigError: an output has no rule, or was asked for by name and the trace lacks a sensor it needs.
            InTheWayError: something that this program did not make stands where a result belongs.
        """
        needs: dict[str, list[str]] = {}
        outputs: dict[str, list[str]] = {}
        for rule in rules:
            patterns = [str(pattern) for pattern in rule.output]
            for match in filter(None, map(_MADE.search, patterns)):
                name = match[1]
                needs[name] = [item.sensor for item in rule.input if isinstance(item, SensorInput)]
                outputs[name] = patterns
        wanted, by_name = self._wanted(list(outputs))
        files: list[str] = []
        for results, source in self.traces.items():
            found = {name for name in wanted if not self._lacking(name, needs, results, source)}
            for name in by_name - found:
                lacking = self._lacking(name, needs, results, source)
                raise ConfigError(f"{source}: has no sensor {lacking!r}, which the output {name!r} needs")
            if not found:
                raise FormatError(f"{source}: has none of the sensors that outputs {', '.join(wanted)} need")
            for name in _closure(found, needs):
                if problem := in_the_way(results / f"_{name}"):
                    raise InTheWayError(problem)
            trace = str(results).lstrip("/")
            for name in filter(found.__contains__, wanted):
                self.places.append(str(results / f"_{name}"))
                files += _requested([pattern.replace("{trace}", trace) for pattern in outputs[name]])
        return files

    def failures(self, rules: Iterable[Any]) -> list[str]:
        """The errors that logs of this run's jobs end with, wherever the jobs ran, each of them once."""
        lines: list[str] = []
        for pattern in (str(log) for rule in rules for log in rule.log):
            for results in self.traces:
                log = Path(pattern.replace("{trace}", str(results).lstrip("/")))
                if log.exists() and log.stat().st_mtime >= self.started:
                    last = log.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[2]
                    lines += [last.removeprefix(ERROR_MARK)] if last.startswith(ERROR_MARK) else []
        return list(dict.fromkeys(lines))

    def _request(self, section: str) -> str:
        request = {"input": self.config.input.model_dump(), "options": self.config.section(section)}
        return json.dumps(request, sort_keys=True)

    def _wanted(self, known: list[str]) -> tuple[list[str], set[str]]:
        """Names of wanted outputs in order, and those of them that were asked for by name."""
        wanted: dict[str, None] = {}
        by_name = set()
        for item in self.config.outputs:
            for name in filter(None, item.replace(",", " ").split()):
                if name == "default":
                    wanted |= dict.fromkeys(name for name in DEFAULT_OUTPUTS if name in known)
                elif name == "all":
                    wanted |= dict.fromkeys(known)
                elif name in known:
                    wanted[name] = None
                    by_name.add(name)
                else:
                    hint = did_you_mean(name.removeprefix("_"), [*known, "default", "all"])
                    raise ConfigError(f"config: outputs: no rule makes {name!r}; {hint}")
        if not wanted:
            raise ConfigError("config: outputs: is empty; use `default`, `all` or names")
        return list(wanted), by_name

    def _lacking(self, name: str, needs: Mapping[str, list[str]], results: Path, source: Path) -> str:
        """A sensor that an output needs and the trace lacks, "" when there is none."""
        for sensor in needs[name]:
            if sensor in self.made:
                if lacking := self._lacking(sensor.removeprefix("_"), needs, results, source):
                    return lacking
            elif self.is_demo(results):
                if sensor not in self.demo_sensors:
                    return sensor
            elif not (source / sensor / META).exists():
                return sensor
        return ""


def locate_traces(entries: list[str], here: Path, output_root: Path | None) -> dict[Path, Path]:
    """Recordings that the entries of `traces` stand for: directory of results -> directory of the recording.

    With an `output_root` a trace that is an entry itself keeps its name there, one that was found below a folder
    keeps its path from that folder, and one that matches a glob its path from the part without wildcards.

    Raises:
        FormatError: an entry stands for no trace, or two traces would have the same directory of results.
    """
    located: dict[Path, Path] = {}
    for entry in entries:
        pattern = os.path.join(here, os.path.expanduser(entry))
        is_glob = glob.has_magic(pattern) and not Path(pattern).exists()
        folders = sorted(Path(name) for name in glob.glob(pattern, recursive=True)) if is_glob else [Path(pattern)]
        folders = [Path(os.path.normpath(folder)) for folder in folders if folder.is_dir()]
        if not folders:
            raise FormatError(f"traces: {entry}: no such directory")
        found = [trace for folder in folders for trace in find_traces(folder)]
        if not found:
            raise FormatError(f"traces: {entry}: no trace at or below it: none of its folders has a config.yaml")
        base = Path(os.path.dirname(re.split(r"[*?\[]", pattern)[0])) if is_glob else folders[0]
        for trace in dict.fromkeys(found):
            relative = trace.relative_to(base) if trace != base else Path(trace.name)
            results = Path(os.path.normpath(output_root / relative)) if output_root else trace
            if located.get(results, trace) != trace:
                raise FormatError(f"traces: {trace} and {located[results]} would both have their results in {results}")
            located[results] = trace
    return located


def _requested(outputs: list[str]) -> list[str]:
    """Of the files of a virtual sensor, those to ask Snakemake for.

    The file that names the options stands for all, which come and go together: every further one costs a thousand
    traces' dry run a second. Only where somebody removed a file from a finished sensor is that one asked for too.
    """
    stamp = next(path for path in outputs if "/.options-" in path)
    return [stamp, *(path for path in outputs if os.path.exists(stamp) and not os.path.exists(path))]


def _closure(names: Iterable[str], needs: Mapping[str, list[str]]) -> set[str]:
    """Outputs and all outputs they are made from."""
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [sensor.removeprefix("_") for sensor in needs[name] if sensor.removeprefix("_") in needs]
    return seen
