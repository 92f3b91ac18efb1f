"""Which outputs can be made of a recording, and which outputs those are made from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rover_pipeline.workflow.rule_inputs import Input, Recordings


class Needs:
    """What outputs need of recordings.

    Attributes:
        inputs: name of an output -> what its rule reads.
        others: outputs whose rules read other files too, of which only Snakemake knows whether they have changed.
    """

    def __init__(self, recordings: Recordings) -> None:
        self.recordings = recordings
        self.inputs: dict[str, list[Input]] = {}
        self.others: set[str] = set()

    def declare(self, name: str, inputs: list[Any]) -> None:
        """Take down what the rule of an output reads."""
        self.inputs[name] = [item for item in inputs if isinstance(item, Input)]
        if len(self.inputs[name]) < len(inputs):
            self.others.add(name)

    def sensors(self, name: str, results: Path) -> dict[str, bool]:
        """Sensors that an output is made from -> whether it does without."""
        inputs = self.inputs.get(name, ())
        return {sensor: optional for item in inputs for sensor, optional in item.sensors(results).items()}

    def lacking(self, name: str, results: Path) -> str:
        """What keeps a recording from having an output, such as a sensor that it lacks; "" when there is nothing."""
        if unfit := self._unfit(name, results):
            return unfit
        recordings = self.recordings
        for sensor, optional in self.sensors(name, results).items():
            if optional or recordings.has(sensor, results):
                continue
            below = self.lacking(sensor.removeprefix("_"), results) if sensor in recordings.made else ""
            return below or f"has no sensor {sensor!r}"
        return ""

    def closure(self, names: Iterable[str], results: Path) -> set[str]:
        """Outputs and all outputs they are made from."""
        seen: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += self.made_from(name, results)
        return seen

    def made_from(self, name: str, results: Path) -> list[str]:
        """Outputs that an output reads."""
        made, has = self.recordings.made, self.recordings.has
        return [each.removeprefix("_") for each in self.sensors(name, results) if each in made and has(each, results)]

    def sensors_made_from(self, sensor: str, results: Path) -> list[str]:
        """Virtual sensors that a virtual sensor is made from, of those that rules make."""
        return [f"_{name}" for name in self.made_from(sensor.removeprefix("_"), results)]

    def pending(self, wanted: Sequence[str], results: Path) -> list[str]:
        """Outputs that have to be made: those without a stamp, and those that are made from them."""
        known: dict[str, bool] = {}
        recordings = self.recordings

        def missing(name: str) -> bool:
            if name not in known:
                inputs = list(map(missing, self.made_from(name, results)))
                stamped = os.path.exists(f"{results}/_{name}/{recordings.made[f'_{name}']}")
                known[name] = not stamped or any(inputs) or name in self.others
            return known[name]

        found = [name for name in sorted(self.closure(wanted, results)) if missing(name)]
        last = [name for name in wanted if any(item.waits_for_all for item in self.inputs.get(name, ()))]
        return list(dict.fromkeys([*found, *(last if found else ())]))

    def tell_unfit(self, names: Iterable[str], results: Path) -> None:
        """Say which outputs are left out although the recording has the sensor, because that is of another kind."""
        unfit = {reason for name in self.inputs if (reason := self._unfit(name, results))}
        for name in names:
            if (reason := self.lacking(name, results)) in unfit:
                source = self.recordings.source(results)
                print(f"rover-pipeline: {source}: {name} is left out: the recording {reason}", file=sys.stderr)

    def _unfit(self, name: str, results: Path) -> str:
        return next(filter(None, (item.unfit(results) for item in self.inputs.get(name, ()))), "")
