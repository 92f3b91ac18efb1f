"""What the Snakemake rules look up: traces, sensors, options and the command of a step. No maths, no processing.

`rules/common.smk` gives these methods the short names that rules are written in.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rover_pipeline.config import DEFAULT_OUTPUTS, NEEDS_OPTION, Config
from rover_pipeline.engine.parallel import DASK_VARIABLE
from rover_pipeline.errors import ERROR_MARK, ConfigError, FormatError, InTheWayError, did_you_mean
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.trace import has_files
from rover_pipeline.format.virtual import in_the_way
from rover_pipeline.workflow.rule_inputs import ChannelsInput, EverythingInput, FileInput, SensorInput
from rover_pipeline.workflow.traces import locate_traces

_STAMP = ".options-"
_MADE = re.compile(r"/_([^/]+)/" + re.escape(_STAMP))


class Flow:
    """The configuration and the traces of one run of the workflow.

    Attributes:
        config: the validated configuration.
        traces: directory that results go to -> directory of the recording. The same unless `output_root` is set.
        made: the virtual sensors, and folders of files, that rules make, and the file each is known by.
        wanted: directory of results -> names of the outputs that are asked for, once `targets` has been called.
        places: directories of what was asked for, once `targets` has been called.
        started: when this run began, seconds since the epoch.
    """

    #: Sensors of the simulated trace, which may not exist yet.
    demo_sensors = ("camera", "imu", "lidar", "radar")

    def __init__(self, values: Mapping[str, Any], folder: Path | None = None) -> None:
        self.config = Config.parse(values)
        self.made: dict[str, str] = {}
        self.wanted: dict[Path, list[str]] = {}
        self.places: list[str] = []
        self._needs: dict[str, list[SensorInput]] = {}
        self._wildcards: dict[str, Path] = {}
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

    def place(self, wildcard: str) -> Path:
        """The directory of results that the wildcard `trace` of a rule stands for."""
        if (found := self._wildcards.get(wildcard)) is None:
            found = self._wildcards[wildcard] = Path("/") / wildcard
        return found

    def source(self, results: Path) -> Path:
        """The directory of the recording whose results go to `results`."""
        return self.traces.get(results, results)

    def sensor(self, sensor: str, *channels: str, optional: bool = False) -> SensorInput:
        """Input of a rule: a sensor of the trace, raw or virtual; an optional one where the trace has it."""
        return SensorInput(self, sensor, channels, optional)

    def sensors(self, *channels: str) -> ChannelsInput:
        """Input of a rule: these channels of every raw sensor of the trace."""
        return ChannelsInput(self, channels)

    def trace_file(self, name: str) -> FileInput:
        """Input of a rule: a file beside the sensors, `config.yaml` say, for a step that names it in its `files`."""
        return FileInput(self, name)

    def everything(self, besides: str) -> EverythingInput:
        """Input of a rule: whatever else is wanted of the trace."""
        return EverythingInput(self, besides)

    def virtual(self, sensor: str, *channels: str, options: str | Sequence[str] = "") -> list[str]:
        """Output of a rule: a virtual sensor with these channels, and an empty file that names its options.

        Because of that file other options are another output: they are noticed from any working directory, not only
        where Snakemake remembers what it did. `ts` and `valid` come with every sensor and are not listed: files are
        what a long dry run spends its time on.
        """
        self.made[sensor] = META  # published last, it stands for the whole sensor
        return self._outputs(sensor, [*channels, META], options)

    def product(self, folder: str, *files: str, options: str | Sequence[str] = "") -> list[str]:
        """Output of a rule: a folder of files that is no sensor, and the empty file that names its options."""
        outputs = self._outputs(folder, files, options)
        self.made[folder] = outputs[-1].rpartition("/")[2]
        return outputs

    def _outputs(self, folder: str, names: Iterable[str], options: str | Sequence[str]) -> list[str]:
        digest = hashlib.blake2b(self._request(options).encode(), digest_size=6).hexdigest()
        return [f"/{{trace}}/{folder}/{name}" for name in (*names, f"{_STAMP}{digest}")]

    def options(self, *sections: str) -> Callable[[Any], str]:
        """Parameter of a rule: all that may change its result, as JSON. A callable, for the sake of the braces.

        Of several sections the first gives its own options, each other one an option of its name.
        """
        text = self._request(sections)
        return lambda wildcards: text

    def step(self, name: str) -> str:
        """Shell command of a rule that runs a step."""
        from rover_pipeline.engine.step import find_step

        python = shlex.quote(sys.executable)
        return (
            f"{python} -m rover_pipeline step {shlex.quote(name)} --step-version {find_step(name).version} "
            "--input {input:q} --output {output:q} --request {params.options:q} --threads {threads} --log {log:q}"
        )

    def threads(self, most: int, cores: int) -> int:
        """Threads of a job on a machine with so many cores.

        Two jobs with one thread each do more than one after the other with two: they wait at different moments.
        """
        return max(1, min(most, cores if len(self.places) == 1 else cores // 2))

    def targets(self, rules: Iterable[Any]) -> list[str]:
        """Files that were asked for, of every wanted virtual sensor of every trace.

        Raises:
            ConfigError: an output has no rule, or was asked for by name and the trace lacks a sensor it needs.
            InTheWayError: something that this program did not make stands where a result belongs, or nothing can be
            written there.
        """
        outputs: dict[str, list[str]] = {}
        for rule in rules:
            patterns = [str(pattern) for pattern in rule.output]
            for match in filter(None, map(_MADE.search, patterns)):
                name = match[1]
                self._needs[name] = [item for item in rule.input if isinstance(item, SensorInput)]
                outputs[name] = patterns
        wanted, by_name = self._wanted(list(outputs))
        files: list[str] = []
        for results, source in self.traces.items():
            found = {name for name in wanted if not self._lacking(name, results)}
            for name in by_name - found:
                lacking = self._lacking(name, results)
                raise ConfigError(f"{source}: has no sensor {lacking!r}, which the output {name!r} needs")
            if not any(self._needs[name] or name in by_name for name in found):
                raise FormatError(f"{source}: has none of the sensors that outputs {', '.join(wanted)} need")
            self.wanted[results] = [name for name in wanted if name in found]
            for name in self._closure(found, results):
                if problem := in_the_way(results / f"_{name}"):
                    raise InTheWayError(problem)
            trace = str(results).lstrip("/")
            for name in self.wanted[results]:
                self.places.append(str(results / f"_{name}"))
                asked = _requested([pattern.replace("{trace}", trace) for pattern in outputs[name]])
                files += asked
                if not os.path.exists(asked[0]) and not _writable(results):
                    raise InTheWayError(
                        f"{results}: cannot be written to; set output_root to a folder where results can go"
                    )
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

    def _request(self, sections: str | Sequence[str]) -> str:
        first, *others = [sections] if isinstance(sections, str) else sections or [""]
        values = self.config.section(first) | {name: self.config.section(name) for name in others}
        return json.dumps({"input": self.config.input.model_dump(), "options": values}, sort_keys=True)

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
                    plain = name.removeprefix("_")
                    hint = NEEDS_OPTION.get(plain) or did_you_mean(plain, [*known, "default", "all"])
                    raise ConfigError(f"config: outputs: no rule makes {name!r}; {hint}")
        if not wanted:
            raise ConfigError("config: outputs: is empty; use `default`, `all` or names")
        return list(wanted), by_name

    def has(self, sensor: str, results: Path) -> bool:
        """Whether a trace has a sensor, or all that it takes to make it."""
        if sensor in self.made:
            return not self._lacking(sensor.removeprefix("_"), results)
        if self.is_demo(results):
            return sensor in self.demo_sensors
        return os.path.exists(f"{self.source(results)}/{sensor}/{META}")

    def _lacking(self, name: str, results: Path) -> str:
        """A sensor that an output needs and the trace lacks, "" when there is none."""
        for item in self._needs.get(name, ()):
            if item.optional or self.has(item.sensor, results):
                continue
            below = self._lacking(item.sensor.removeprefix("_"), results) if item.sensor in self.made else ""
            return below or item.sensor
        return ""

    def _closure(self, names: Iterable[str], results: Path) -> set[str]:
        """Outputs and all outputs they are made from."""
        seen: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                made = [item.sensor for item in self._needs[name] if item.sensor in self.made]
                todo += [sensor.removeprefix("_") for sensor in made if self.has(sensor, results)]
        return seen


def _writable(folder: Path) -> bool:
    """Whether a folder can be written to, or made."""
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK)


def _requested(outputs: list[str]) -> list[str]:
    """Of the files of a virtual sensor, those to ask Snakemake for.

    The file that names the options stands for all, which come and go together: every further one costs a thousand
    traces' dry run a second. Only where somebody removed a file from a finished sensor is that one asked for too.
    """
    stamp = next(path for path in outputs if f"/{_STAMP}" in path)
    return [stamp, *(path for path in outputs if os.path.exists(stamp) and not os.path.exists(path))]
