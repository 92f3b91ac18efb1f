"""What the rules of exported datasets look up. No maths, no processing.

A dataset is made from all recordings of a run, and only when the configuration names its format in `exports`. Its rule
waits for the virtual sensors that the format needs, which are then made even if `outputs` does not name them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from rover_pipeline.datasets.options import DatasetOptions
from rover_pipeline.datasets.table import DATASETS
from rover_pipeline.engine.instances import Names, roles_of
from rover_pipeline.engine.step import OPTIONAL
from rover_pipeline.errors import ConfigError, FormatError, InTheWayError, did_you_mean
from rover_pipeline.format.files import STAMP
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.table import TABLE
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.launch import python
from rover_pipeline.workflow.needs import Reads, sensor_files, withdraw


class Exports:
    """The datasets of one run. `names`: our formats in the order of the table, and other wanted ones, with rules."""

    def __init__(self, flow: Flow, folder: Path | None = None) -> None:
        self.flow = flow
        here = folder or Path.cwd()
        self.root = here / (flow.config.export.root or "exports")
        self.wanted = flow.config.exports
        self.names = list(dict.fromkeys([*DATASETS.own, *self.wanted]))
        for name in self.wanted:
            if name not in DATASETS:
                raise ConfigError(f"config: exports: there is no format {name!r}; {did_you_mean(name, DATASETS)}")

    def needs(self, name: str) -> Callable[[Any], list[str]]:
        """Input of a rule: the channels of all recordings that a format reads."""
        return lambda wildcards: [path for results in self.flow.traces for path in self._files(name, results)]

    def makes(self, name: str) -> str:
        """Output of a rule: the stamp of the dataset, whose name depends on the options."""
        request = json.dumps([self._options_and_splits(name), DATASETS[name].version], sort_keys=True)
        digest = hashlib.blake2b(request.encode(), digest_size=6).hexdigest()
        return str(self.root / name / f"{STAMP}{digest}")

    def request(self, name: str) -> str:
        """Parameter of a rule: all options that may change the dataset, as JSON."""
        return json.dumps(self._options_and_splits(name), sort_keys=True)

    def entries(self, wildcards: Any) -> str:
        """Parameter of a rule: the recordings as the user named them, for a command line has a limit."""
        config = self.flow.config
        entries = config.traces if config.traces is not None else [str(self.flow.demo)]
        root = ["--output-root", os.path.abspath(config.output_root)] if config.output_root else []
        return shlex.join([*(os.path.abspath(os.path.expanduser(each)) for each in entries), *root])

    def command(self) -> str:
        """Shell command of a rule."""
        return (
            f"{shlex.join(python('rover_pipeline'))} export {{params.format}} {{params.entries}} "
            "--out {params.folder:q} --stamp {params.stamp:q} --request {params.request:q} --replace "
            "--threads {threads} --log {log:q}"
        )

    def targets(self, begins: bool = True) -> list[str]:
        """Stamps of the datasets that are asked for. `begins`: see `Flow.targets`. Raises FormatError where a recording
        lacks a sensor that the format needs, and InTheWayError where something that is not ours stands in its place."""
        stamps = []
        for name in self.wanted:
            for results, source in self.flow.traces.items():
                made = set()
                for sensor, (_, optional) in self._read(name, results).items():
                    if not optional and not self.flow.has(sensor, results):
                        raise FormatError(f"{source}: has no sensor {sensor!r}, which the export {name!r} needs")
                    if sensor in self.flow.made and self.flow.has(sensor, results):
                        made.add(sensor[1:])
                self.flow.prepare(made, results, begins)
            stamp = Path(self.makes(name))
            provenance = read_provenance(stamp.parent) if stamp.parent.is_dir() else None
            if stamp.parent.is_dir() and provenance is None and any(stamp.parent.iterdir()):
                if DATASETS[name].kind != "merge":
                    raise InTheWayError(
                        f"{stamp.parent}: is no dataset of ours; move it away, or set export.root to another folder"
                    )
            elif begins and stamp.exists() and provenance and provenance.get("version") != DATASETS[name].version:
                withdraw(stamp)
            self.flow.datasets.append(str(stamp.parent))
            stamps.append(str(stamp))
        return stamps

    def _options_and_splits(self, name: str) -> dict[str, Any]:
        section = self.flow.config.export
        splits = section.splits.model_dump(mode="json") if DATASETS[name].splits else {}
        return {"options": section.of(name).model_dump(mode="json"), "splits": splits}

    def _read(self, name: str, results: Path) -> dict[str, tuple[tuple[str, ...], bool]]:
        """Sensors, or products, of a recording that a format reads -> the channels, and whether it does without.

        It does without those of all sensors of a type but for the main one.
        """
        options: DatasetOptions = self.flow.config.export.of(name)
        rig = self.flow.rig(results)
        roles = roles_of(TABLE["_odom"], "_odom", rig, self.flow.wanted_roles)
        main, *others = Names(roles, rig).each(options.several())
        needs = [*map(main.reference, options.needs())]
        for names, each in product(others, options.needs()):
            if (reference := names.reference(each)) not in needs:
                needs.append(f"{reference.removesuffix(OPTIONAL)}{OPTIONAL}")
        return Reads.of(needs).sensors

    def _files(self, name: str, results: Path) -> list[str]:
        paths: list[str] = []
        for sensor, (channels, optional) in self._read(name, results).items():
            if not optional or self.flow.has(sensor, results):
                paths += sensor_files(self.flow, sensor, channels, results)
        return list(dict.fromkeys(paths))
