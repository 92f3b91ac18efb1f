"""The rig of a preset: the poses of its sensors, its motion, and when each sensor samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.camera.lens import Lens
from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.simulate.motion.motion import RIDING, ROLLING, WALKING, Motion, disturbed
from rover_pipeline.simulate.motion.path import ClosedPath
from rover_pipeline.simulate.presets import Preset
from rover_pipeline.simulate.scene import crowd, flat, park, stairs, street, tunnel
from rover_pipeline.simulate.scene.world import World
from rover_pipeline.simulate.sensors import imu
from rover_pipeline.simulate.sensors.camera import LENSES
from rover_pipeline.simulate.sensors.clocks import Clock
from rover_pipeline.simulate.sensors.lidar import BEAMS, Beams, Rays, rays
from rover_pipeline.simulate.sensors.lidar_errors import LidarErrors
from rover_pipeline.simulate.sensors.radar_errors import RadarErrors
from rover_pipeline.simulate.unkind import Unkind


def mount_at(x: float, y: float, z: float, *, yaw: float = 0.0, pitch: float = 0.0) -> Mount:
    """A pose in the lidar frame, from metres and degrees; positive yaw points to the left, positive pitch down."""
    cy, sy, cp, sp = np.cos(a := np.radians(yaw)), np.sin(a), np.cos(b := np.radians(pitch)), np.sin(b)
    yaw_rotation = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    pitch_rotation = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    return Mount(np.array([x, y, z]), matmul(yaw_rotation, pitch_rotation))


#: Every sensor's pose in the lidar frame. Their order gives the seeds of their random numbers. Layout.
MOUNTS = {
    "lidar": IDENTITY,
    "radar": mount_at(0.08, 0.0, -0.14, yaw=1.5, pitch=1.0),
    "camera": mount_at(0.07, 0.05, -0.09, yaw=-1.0, pitch=3.0),
    "imu": mount_at(-0.03, 0.02, -0.11, yaw=2.0),
}
#: One radar frame of this many loses packets. Layout.
PACKETS_LOST_EVERY = 31


@dataclass(frozen=True)
class Rig:
    """Everything that does not change during a recording.

    Attributes:
        motion: of the lidar.
        clocks: by sensor.
        beams: as the sidecar gives them.
        mounts: every sensor's true pose in the lidar frame; section rig of config.yaml may have others, or none.
        lidar_errors: of the device.
        lidar_rays: of a revolution of the true beams.
    """

    preset: Preset
    seed: int
    world: World
    motion: Motion
    clocks: dict[str, Clock]
    beams: Beams
    lens: Lens
    mounts: dict[str, Mount]
    lidar_errors: LidarErrors
    lidar_rays: Rays

    def key(self, sensor: str) -> tuple[int, ...]:
        """Seed of a sensor's random numbers."""
        return self.seed, list(MOUNTS).index(sensor)

    def random(self, sensor: str, number: int) -> np.random.Generator:
        """The random numbers of one sample. They do not depend on other samples, nor on the thread that makes it."""
        return np.random.default_rng([*self.key(sensor), 2, number])

    def mounted(self, sensor: str) -> Motion:
        """The motion of a sensor."""
        return self.motion.of_sensor(self.mounts[sensor])

    def imu_errors(self) -> imu.Errors:
        """The errors of the IMU."""
        return imu.Errors.of_device(self.key("imu"), self.preset.unkind)

    def radar_errors(self) -> RadarErrors | None:
        """The errors of the radar's board; None if it has none."""
        unkind = self.preset.unkind
        if not (unkind.radar_coupling or unkind.array_phase or unkind.array_gain or unkind.phase_noise):
            return None
        return RadarErrors.of_board(self.preset.radar, unkind, np.random.default_rng([*self.key("radar"), 0xE44]))

    def config(self) -> dict[str, Any]:
        """The content of `config.yaml`: how the recording was made, and the extrinsics."""
        preset = self.preset
        capture = {"sys_ip": "192.168.33.30", "fpga_ip": "192.168.33.180", "data_port": 4098, "config_port": 4096}
        lidar = {"addr": None, "port_lidar": 7502, "port_imu": 7503, "mode": f"{preset.columns}x{preset.lidar_rate}"}
        return {
            "lidar": {"type": "lidar", "args": {**lidar, "beams": self.beams.count}},
            "imu": {"type": "imu", "args": {"port": "/dev/ttyUSB0", "baudrate": 115200}},
            "camera": {
                "type": "camera",
                "args": {"idx": 0, "width": preset.width, "height": preset.height, "fps": preset.camera_rate},
            },
            "radar": {
                "type": "radar",
                "comment": f"simulated: {preset.description}",
                "args": {
                    "radar": preset.radar.model_dump(),
                    "capture": {**capture, "timeout": 1.0, "socket_buffer": 16777216, "delay": 60.0},
                },
            },
            **({} if preset.unkind.no_rig else {"rig": self._extrinsics()}),
        }

    def _extrinsics(self) -> dict[str, Any]:
        """Section rig: the poses that the rig was built for."""
        unknown = {"lidar", "imu"} if self.preset.unkind.imu_mount else {"lidar"}
        return {
            name: {"translation": mount.translation.tolist(), "rotation": mount.rotation.tolist()}
            for name, mount in MOUNTS.items()
            if name not in unknown
        }


def build(preset: Preset, seed: int) -> Rig:
    """The rig of a preset in its scene. The seed decides noise, losses and scatterers, not the scene or the motion."""
    gait, spin_up = ROLLING if preset.carrier == "trolley" else WALKING, 1.2
    if preset.carrier == "bike":
        gait, spin_up = RIDING, 4.0
    path, height = _path(preset)
    gait = disturbed(gait, preset.unkind, preset.speed)
    motion = Motion(path, preset.speed, height, gait, preset.stand, spin_up)
    world = _world(preset, motion)
    revolution = 1 / preset.lidar_rate
    clocks = {
        "lidar": Clock(revolution + 0.037, revolution, 0.0004, 0.0003, lost_every=53),
        "radar": Clock(0.061, preset.radar.frame_period / 1000, 0.0008, 0.0004),
        "camera": Clock(0.203, 1 / preset.camera_rate, 0.0015, 0.0010, lost_every=89),
        "imu": Clock(0.012, 1 / preset.imu_rate, 0.0006, 0.0005),
    }
    beams, rng = BEAMS[preset.lidar], np.random.default_rng([seed, 0x0DD])
    return Rig(
        preset,
        seed,
        world,
        motion,
        _with_offsets(clocks, preset.unkind, rng),
        beams,
        LENSES[preset.lens].resized(preset.width, preset.height),
        _true_mounts(preset.unkind, rng),
        _lidar_errors(preset.unkind, beams, rng),
        rays(_true_beams(preset.unkind, beams, rng), preset.columns),
    )


def _with_offsets(clocks: dict[str, Clock], unkind: Unkind, rng: np.random.Generator) -> dict[str, Clock]:
    """Clocks whose stamps are off by a constant; the lidar's is the reference."""
    offsets = dict(zip(("radar", "camera", "imu"), unkind.clock_offsets * rng.uniform(-1, 1, 3), strict=True))
    offsets["imu"] += unkind.imu_late
    shifted = {name: replace(clocks[name], delay=clocks[name].delay + float(by)) for name, by in offsets.items() if by}
    return clocks | shifted


def _true_mounts(unkind: Unkind, rng: np.random.Generator) -> dict[str, Mount]:
    """The poses of the sensors with the IMU's errors of mounting."""
    axis, any_rotation = rng.standard_normal(3), Rotation.random(rng=rng).as_matrix()
    vector = np.radians(unkind.imu_misalignment) * axis / np.linalg.norm(axis, axis=0)
    nominal = MOUNTS["imu"]
    if not unkind.imu_mount and not unkind.imu_misalignment:
        return MOUNTS
    rotation = any_rotation if unkind.imu_mount else matmul(nominal.rotation, Rotation.from_rotvec(vector).as_matrix())
    return MOUNTS | {"imu": Mount(nominal.translation, rotation)}


def _lidar_errors(unkind: Unkind, beams: Beams, rng: np.random.Generator) -> LidarErrors:
    good = LidarErrors()
    return LidarErrors(
        rough=unkind.range_noise > 0,
        noise=unkind.range_noise or good.noise,
        growth=unkind.range_noise_growth or good.growth,
        bias=unkind.range_bias,
        beam_bias=0.5 * unkind.range_bias * rng.standard_normal((beams.count, 1)),
        mixed=unkind.mixed_pixels,
        weak=unkind.weak_returns,
    )


def _true_beams(unkind: Unkind, beams: Beams, rng: np.random.Generator) -> Beams:
    """The beams of a device that is not quite what its sidecar says."""
    if unkind.beam_angles == 0:
        return beams
    altitude, azimuth = unkind.beam_angles * rng.standard_normal((2, beams.count))
    return replace(beams, altitude=beams.altitude + altitude, azimuth=beams.azimuth + azimuth)


def _path(preset: Preset) -> tuple[ClosedPath, float]:
    """The path through the scene, and the height of the lidar over it, metres."""
    if preset.scene == "street":
        return (street.CYCLE_PATH, 1.1) if preset.carrier == "bike" else (street.PAVEMENT_PATH, 1.6)
    paths = {
        "flat": (flat.RIG_PATH, 1.25),
        "stairs": (stairs.RIG_PATH, 1.25),
        "park": (park.RIG_PATH, 1.6),
        "bushes": (park.RIG_PATH, 1.6),
        "crowd": (crowd.RIG_PATH, 1.25),
        "tunnel": (tunnel.RIG_PATH, 1.1),
    }
    path, height = paths[preset.scene]
    return path, 1.1 if preset.carrier == "bike" else height


def _world(preset: Preset, motion: Motion) -> World:
    worlds: dict[str, Callable[[], World]] = {
        "flat": flat.world,
        "stairs": stairs.world,
        "street": street.world,
        "park": lambda: park.world(preset.leaf_depth),
        "bushes": lambda: park.bushes(preset.leaf_depth),
        "crowd": lambda: crowd.world(motion.pace),
        "tunnel": tunnel.world,
    }
    return worlds[preset.scene]()
