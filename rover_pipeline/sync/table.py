"""Declarations of the virtual sensors of time."""

from __future__ import annotations

from typing import get_args

from rover_pipeline.clocks.options import RawSensor, TimesSection
from rover_pipeline.engine.step import REFERENCE, SMALL, Output, Run, Shown, Step
from rover_pipeline.kinematics.options import Mounted
from rover_pipeline.sync.options import MatchOptions

_RAW = get_args(RawSensor)

STEPS = (
    Step(
        sensor="_sync",
        function="rover_pipeline.sync.steps:matched",
        version=7,
        sections=("sync", "rig"),
        uses={"rig": ("name", *get_args(Mounted))},
        options=MatchOptions,
        files={"config": "config.yaml?"},
        inputs={"ts": f"{REFERENCE}/ts"},
        whole={"times": "*/ts"},
        constants={"reference": REFERENCE},
        outputs={
            "*": Output(
                "{name}: nearest sample of that sensor, -1 = none within the tolerance; with _dt: its time minus that "
                "of the reference, s."
            )
        },
        run=Run(recording=True, brief=True, threads=1, cost=SMALL),
        shown=Shown(
            default=True,
            summary="For each raw sensor S: `S` i4, its sample nearest in time, -1 = none within the tolerance; `S_dt` "
            "f4, s, its time minus that of the reference.",
        ),
    ),
    *(
        Step(
            sensor=f"_{sensor}_times",
            function="rover_pipeline.sync.steps:corrected_times",
            version=7,
            sections=("sync.times",),
            options=TimesSection,
            inputs={"ts": f"{sensor}/ts"},
            whole={"beside": "*/ts"},
            constants={"sensor": sensor},
            outputs={
                "smooth": Output(
                    "Time of each sample without the jitter of its arrival, seconds since the Unix epoch; where valid "
                    "is 0, as recorded.",
                    type="f8",
                ),
                "number": Output("Number of each sample from 0 on, lost ones counted.", type="i8"),
                "segment": Output("Number of the segment from 0 on; a restart begins a new one.", type="i4"),
                "error": Output(
                    "Largest error of smooth but for the smallest latency, s; NaN where it is not known.", type="f4"
                ),
            },
            run=Run(recording=True, brief=True, threads=1, cost=SMALL),
            shown=Shown(
                summary="Times without the jitter of their arrival, s; the number of each sample, where lost ones "
                "count; the segment, which a restart begins; how wrong the time can be, s. `valid` = 0: not "
                "known, as recorded."
            ),
        )
        for sensor in _RAW
    ),
)
