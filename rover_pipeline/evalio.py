"""`_odom` as a pipeline of evalio (github.com/contagon/evalio), which judges odometry on public benchmarks.

    EVALIO_CUSTOM=rover_pipeline.evalio evalio run -d newer_college_2020/short_experiment -p rover_pipeline -o results

evalio hands over measurements one after another, and collects poses after each. `_odom` is a batch: it needs the whole
recording. Sweeps and the IMU are written into a trace. After the last sweep `_odom` is run on it, and all poses are
delivered at once. In evalio a pipeline does not know which sweep is the last one. Importing this module therefore wraps
`evalio.types.Experiment.setup`, so that the measurements say it. In a loop of your own, call `finish` at the end.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from evalio.pipelines import Pipeline
from evalio.types import SE3, Experiment, ImuMeasurement, LidarMeasurement, Stamp

from rover_pipeline import __version__
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.origin import in_rig, write_config
from rover_pipeline.importers.ouster import ImuWriter
from rover_pipeline.importers.points import Cloud, PointsWriter
from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.table import find_step

#: Parameters of evalio are numbers, words and switches.
_OPTIONS = {name: each for name, each in OdometrySection().model_dump().items() if isinstance(each, int | float | str)}


class RoverPipeline(Pipeline):  # type: ignore[misc]
    """Poses of the IMU at the ends of all sweeps, as `_odom` has them, whether they are valid or not.

    Its parameters are options of the section `odometry`, and `valid_only`, which delivers valid poses only.
    """

    name = staticmethod(lambda: "rover_pipeline")
    version = staticmethod(lambda: __version__)
    url = staticmethod(lambda: "https://pypi.org/project/rover-pipeline")
    default_params = staticmethod(lambda: {**_OPTIONS, "valid_only": False})
    map: Any = staticmethod(dict)
    # Noise and ranges are estimated from the recording.
    set_imu_params = set_lidar_params = staticmethod(lambda params: None)
    #: Whether the next sweep is the last one, after which no measurements follow.
    last = False
    _params: dict[str, Any] = default_params()
    _imu_from_lidar = np.eye(4)
    _lidar: PointsWriter

    def set_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Take parameters, and return those that there are not."""
        self._params = self._params | {name: value for name, value in params.items() if name in self._params}
        return {name: value for name, value in params.items() if name not in self._params}

    def set_imu_T_lidar(self, T: SE3) -> None:  # noqa: N802, N803
        self._imu_from_lidar = np.asarray(T.to_mat())

    def initialize(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="evalio-")  # is removed with the pipeline
        self._trace, self._imu = Path(self._scratch.name) / "trace", list[Any]()

    def add_imu(self, mm: ImuMeasurement) -> None:
        self._imu.append((mm.stamp.to_nsec() / 1e9, mm.accel, mm.gyro))

    def add_lidar(self, mm: LidarMeasurement) -> None:
        """Write a sweep. Its time is that of its last point, or its stamp where points have none."""
        table = np.array([(p.x, p.y, p.z, p.intensity, p.row, p.t.nsec) for p in mm.points], "f8").reshape(-1, 6)
        table = table[Cloud(table[:, :3]).returned()]
        if not hasattr(self, "_lidar"):
            self._timed, folder = bool(table[:, 5].any()), self._trace / "lidar"
            self._lidar = PointsWriter(folder, "evalio")
        time = table[:, 5] / 1e9 if self._timed else None
        cloud, later = Cloud(table[:, :3], table[:, 3], table[:, 4], time).to_end()
        self._lidar.append(mm.stamp.to_nsec() / 1e9 + later, cloud)
        if self.last:
            self.finish()

    def finish(self) -> None:
        """Run `_odom` on what was added, and deliver the poses. Raises RoverError where it cannot be made."""
        self._lidar.close()
        with ImuWriter(self._trace / "imu") as imu:
            if self._imu:
                imu.append(*(np.array(column) for column in zip(*self._imu, strict=True)))
        mount = inv(self._imu_from_lidar)
        sensors = {"lidar": {"type": "lidar"}} | ({"imu": {"type": "imu", "args": {}}} if self._imu else {})
        write_config(self._trace, sensors, command="evalio", sources=[], rig={"imu": in_rig(mount)})
        request = Request({name: value for name, value in self._params.items() if name in _OPTIONS})
        run_step(find_step("_odom"), self._trace, "_odom", request, threads=len(os.sched_getaffinity(0)))
        made = Sensor(self._trace / "_odom")
        ts, pos, rot, valid = (made.channel(name).read() for name in ("ts", "pos", "rot", "valid"))
        print(f"rover_pipeline: valid poses: {100 * valid.mean():.3g}% of {len(ts)}", file=sys.stderr)
        for number in np.flatnonzero(valid if self._params["valid_only"] else np.ones(len(ts))):
            pose = matmul(np.vstack([np.column_stack([rot[number], pos[number]]), [0, 0, 0, 1]]), mount)
            self.save(Stamp.from_nsec(round(ts[number] * 1e9)), SE3.from_mat(pose))


def _last_sweep_last(pipeline: RoverPipeline, measurements: Iterable[Any], sweeps: int) -> Iterator[Any]:
    """The measurements of an experiment, each sweep after what the IMU measured while it lasted."""
    held: list[LidarMeasurement] = []
    count = 0
    for each in measurements:
        if not isinstance(each, LidarMeasurement):
            yield each
        elif count == sweeps:
            break
        else:
            yield from held
            held, count = [each], count + 1
    pipeline.last = True
    yield from held


def _setup(experiment: Experiment) -> Any:
    made = _made(experiment)
    if isinstance(made, tuple) and isinstance(made[0], RoverPipeline):
        return made[0], _last_sweep_last(made[0], made[1], experiment.sequence_length)
    return made


_made, Experiment.setup = Experiment.setup, _setup
