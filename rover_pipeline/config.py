"""The configuration: a strict model of `config/config.yaml`. No other module reads it.

The model of each section is next to the code that it configures, and here they are put together. The default file with
its comments is made from the models: `python -m docs.make_config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from rover_pipeline.camera.options import CameraOptions
from rover_pipeline.datasets.table import ExportSection
from rover_pipeline.errors import ConfigError, FormatError, describe, did_you_mean
from rover_pipeline.format.texts import read_yaml
from rover_pipeline.imu.options import ImuSection
from rover_pipeline.kinematics.options import RIG_FILES, RigOptions
from rover_pipeline.lidar.options import LidarOptions
from rover_pipeline.mapping.options import MapOptions
from rover_pipeline.objects.options import ObjectsSection
from rover_pipeline.occupancy.options import DepthSection, OccupancySection
from rover_pipeline.odometry.options import LidarOdometrySection
from rover_pipeline.options import DaskOptions, InputOptions, Options, ReportOptions
from rover_pipeline.poses.options import PosesSection
from rover_pipeline.radar.options import RadarOdometrySection, RadarOptions
from rover_pipeline.sync.options import SyncOptions


class Config(Options):
    """The whole configuration."""

    traces: list[str] | None = Field(
        None,
        description="Recordings: a path, a glob, or a list of them. A directory of traces stands for all of them. "
        "null = simulate a small recording under demo/.",
    )
    outputs: list[str] = Field(
        ["default"],
        description="`default`, `all`, or names of virtual sensors without their underscore, as one word or a list; "
        "`-name` leaves one out: `default,-map`.",
    )
    exports: list[str] = Field(
        [],
        description="Formats of datasets that are exported too, as one word or a list; an unknown name lists them. "
        "Options are in the section `export`.",
    )
    output_root: str | None = Field(
        None,
        description="Directory of the results. null = results are written beside the raw sensors. A path is for "
        "recordings on read-only storage: it gets a directory for each trace.",
    )
    plan: Literal["auto", "steps", "recordings"] = Field(
        "auto",
        description="What one job is: `steps` = one output of a recording; `recordings` = all outputs of a recording, "
        "whose job plans its own steps. auto = recordings on a cluster, and where there are more than 50 of them.",
    )
    reset_config: bool = Field(
        False,
        description="true = forget the options that the recordings remember from earlier runs; only what is given now "
        "counts, and is remembered.",
    )
    extra_rules: list[str] = Field([], description="Paths of your own .smk files.")
    extra: dict[str, dict[str, Any]] = Field({}, description="Options of your own rules, by section.")
    input: InputOptions = Field(InputOptions(), description="Treatment of damaged recordings.")
    radar: RadarOptions = Field(RadarOptions(), description="Radar processing.")
    lidar: LidarOptions = Field(LidarOptions(), description="Lidar processing.")
    odometry: LidarOdometrySection = Field(LidarOdometrySection(), description="Odometry of the lidar: `_odom`.")
    radar_odometry: RadarOdometrySection = Field(
        RadarOdometrySection(), description="Odometry of the radar and the IMU: `_radar_odom`."
    )
    rig: RigOptions = Field(
        RigOptions(),
        description="Extrinsics: each sensor's pose in the lidar frame, {translation: [x, y, z], rotation: [[...], "
        "[...], [...]]}, m and lidar-from-sensor. null = as in the section `rig` of the recording's own config.yaml, "
        "or the lidar's pose if there is none. time_offset, s, is added to the sensor's times, covariance is that of "
        "its error. `rig: iq1m` is short "
        "for `rig: {name: iq1m}`, and `rig: FILE.yaml` is what `rover-pipeline calibrate rig` has written.",
    )
    poses: PosesSection = Field(PosesSection(), description="Poses: `_radar_pose`, `_camera_pose`, `_imu_pose`.")
    sync: SyncOptions = Field(SyncOptions(), description="Matching of sensors in time, and times of their samples.")
    occupancy: OccupancySection = Field(
        OccupancySection(),
        description="Polar cells that hold lidar returns: `_occupancy`, `_bev`. Range bin k holds slant ranges around "
        "k times the resolution. Azimuth is positive to the right, elevation upward.",
    )
    depth: DepthSection = Field(DepthSection(), description="Depth of the camera's pixels by lidar: `_camera_depth`.")
    camera: CameraOptions = Field(CameraOptions(), description="Camera processing.")
    imu: ImuSection = Field(ImuSection(), description="Bias-corrected IMU and its orientation (`_imu_filtered`).")
    objects: ObjectsSection = Field(
        ObjectsSection(), description="Bodies that move, found and tracked in the lidar's sweeps: `_objects`."
    )
    map: MapOptions = Field(
        MapOptions(),
        description="The map of a recording: points, occupancy grid and picture. Heights are above the floor.",
    )
    instances: dict[str, dict[str, Any]] = Field(
        {},
        description="Options of single sensors, by their names, where a recording has several of a type: for a radar "
        "called radar_front, `{radar_front: {points: {max_points: 64}, rig: {translation: [1, 0, 0]}}}` has options of "
        "the section `radar`, and its pose in the lidar frame.",
    )
    export: ExportSection = Field(ExportSection(), description="Datasets in other formats (`exports`).")
    report: ReportOptions = Field(ReportOptions(), description="The page of each recording.")
    dask: DaskOptions = Field(DaskOptions(), description="Parallel work. No option of this section changes a result.")

    @model_validator(mode="before")
    @classmethod
    def _rig_of_file(cls, values: Any) -> Any:
        """The mounts in the file that `rig` names; others than those called like types are of `instances`."""
        path = values.get("rig") if isinstance(values, Mapping) else None
        if not isinstance(path, str) or not path.endswith(RIG_FILES):
            return values
        try:
            content = read_yaml(Path(path))
        except (OSError, FormatError) as error:
            raise ValueError(f"rig: {describe(error)}") from error
        rig = content.get("rig") if isinstance(content, dict) else None
        if not isinstance(rig, dict):
            raise ValueError(f"rig: {path}: has no section `rig`; make one with `rover-pipeline calibrate rig`")
        given = values.get("instances")
        instances = {str(key): dict(own) for key, own in given.items()} if isinstance(given, Mapping) else {}
        for name in [each for each in rig if each not in RigOptions.model_fields]:
            instances.setdefault(str(name), {}).setdefault("rig", rig.pop(name))
        return {**values, "rig": rig, "instances": instances}

    @field_validator("traces", "outputs", "exports", "extra_rules", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        # The command line gives numbers, paths and lists.
        if value is None or isinstance(value, dict):
            return value
        items = value if isinstance(value, (list, tuple)) else [value]
        return [str(item) for item in items]

    @field_validator("outputs", "exports")
    @classmethod
    def _names(cls, items: list[str]) -> list[str]:
        # A command line separates them by commas or spaces.
        return list(dict.fromkeys(name for item in items for name in item.replace(",", " ").split()))

    def section(self, name: str, around: bool = False) -> dict[str, Any]:
        """Plain values of a dotted section, such as `radar.range_doppler` or `extra.mine`; empty for "". With those
        `around` it `radar.range_doppler` has `radar.board` too. Raises ConfigError where there is no such section."""
        if not name:
            return {}
        values, outer = self._find(name)
        if not isinstance(values, Mapping):
            raise ConfigError(f"options({name!r}): is an option of the config and no section")
        return {**(outer if around else {}), **values}

    def value(self, name: str) -> Any:
        """Plain value of a dotted option, such as `camera.lens`, or of a section. Raises ConfigError."""
        return self._find(name)[0]

    def _find(self, name: str) -> tuple[Any, dict[str, Any]]:
        """Plain value of a dotted section or option, and the options of the sections around it."""
        found: Any = self
        outer: dict[str, Any] = {}
        for part in name.split("."):
            if isinstance(found, BaseModel) and part in type(found).model_fields:
                if found is not self:
                    outer |= {key: value for key, value in found if not isinstance(value, BaseModel)}
                found = getattr(found, part)
            elif isinstance(found, Mapping):
                found = found.get(part, {})
            else:
                known = list(type(found).model_fields) if isinstance(found, BaseModel) else []
                raise ConfigError(f"options({name!r}): config has no section {part!r}; {did_you_mean(part, known)}")
        return (found.model_dump(mode="json") if isinstance(found, BaseModel) else found), outer
