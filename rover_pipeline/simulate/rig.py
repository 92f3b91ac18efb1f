"""The rig of a preset: the poses of its sensors, its motion, and when each sensor samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.camera.lens import Lens
from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.simulate.motion import DRIVING, RIDING, ROLLING, WALKING, ClosedPath, Motion, Pace, disturbed
from rover_pipeline.simulate.presets import ROVER, Placed, Preset
from rover_pipeline.simulate.scene import crowd, flat, park, stairs, street, tunnel
from rover_pipeline.simulate.scene.world import World
from rover_pipeline.simulate.sensors import imu
from rover_pipeline.simulate.sensors.camera import LENSES
from rover_pipeline.simulate.sensors.lidar import BEAMS, Beams, LidarErrors, Rays, rays
from rover_pipeline.simulate.sensors.radar import RadarErrors

#: Host time at the start of the simulation, seconds since 1970; fixed, so that a seed gives the same bytes. Layout.
EPOCH = 1_700_000_000.0


class Tick(NamedTuple):
    """One sample of a sensor."""

    number: int  #: of the sample; lost ones count.
    time: float  #: true instant of the sample, seconds since the start.
    stamp: float  #: the host's arrival time, seconds since 1970.


@dataclass(frozen=True)
class Clock:
    """A free-running sensor and the transfer of its samples to the host."""

    start: float  #: true instant of the first sample, seconds.
    period: float  #: seconds.
    delay: float  #: the minimum latency, seconds.
    jitter: float  #: mean of the additional exponential latency, seconds. No sample overtakes the one before it.
    lost_every: int = 0  #: one sample of every block of this many is lost; 0 = none.

    def count(self, duration: float) -> int:
        """Number of samples, lost ones included."""
        return max(0, int(np.floor((duration - self.start) / self.period + 1e-9)) + 1)

    def ticks(self, duration: float, key: tuple[int, ...]) -> Iterator[Tick]:
        """The samples that arrive. `key` seeds this sensor's random numbers."""
        for number in range(self.count(duration)):
            if is_lost(number, self.lost_every, (*key, 1)):
                continue
            jitter = np.random.default_rng([*key, 0, number]).exponential(self.jitter)
            latency = self.delay + min(jitter, 0.7 * self.period)
            time = self.start + number * self.period
            yield Tick(number, time, EPOCH + time + latency)


def is_lost(number: int, every: int, key: tuple[int, ...]) -> bool:
    """Whether `number` is the one that `key` draws from its block of `every`. The first of a block is never drawn."""
    if every == 0:
        return False
    block, index = divmod(number, every)
    return index == np.random.default_rng([*key, block]).integers(1, every)


def mount_at(x: float, y: float, z: float, *, yaw: float = 0.0, pitch: float = 0.0) -> Mount:
    """A pose in the lidar frame, from metres and degrees; positive yaw points to the left, positive pitch down."""
    cy, sy, cp, sp = np.cos(a := np.radians(yaw)), np.sin(a), np.cos(b := np.radians(pitch)), np.sin(b)
    yaw_rotation = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    pitch_rotation = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    return Mount(np.array([x, y, z]), matmul(yaw_rotation, pitch_rotation))


def _mounts(sensors: Sequence[Placed]) -> dict[str, Mount]:
    """Every sensor's pose in the frame of the first one, the main lidar."""
    placed = {each.name: mount_at(*each.at, yaw=each.yaw, pitch=each.pitch) for each in sensors}
    return placed | {sensors[0].name: IDENTITY}


#: The poses on the usual rig. Layout.
MOUNTS = _mounts(ROVER)
#: One radar frame of this many loses packets. Layout.
PACKETS_LOST_EVERY = 31
#: What each carrier adds to its path, and how long it takes to full speed, s. Layout.
_GAITS = {"walker": (WALKING, 1.2), "trolley": (ROLLING, 1.2), "bike": (RIDING, 4.0), "car": (DRIVING, 2.0)}


class Lidar(NamedTuple):
    """One lidar of a rig."""

    beams: Beams  #: as the sidecar gives them.
    errors: LidarErrors  #: of the device.
    rays: Rays  #: of a revolution of the true beams.


@dataclass(frozen=True)
class Rig:
    """Everything that does not change during a recording."""

    preset: Preset
    seed: int
    world: World
    motion: Motion  #: of the main lidar.
    clocks: dict[str, Clock]  #: by sensor.
    #: every sensor's true pose in the main lidar's frame; section rig of config.yaml may have others, or none.
    mounts: dict[str, Mount]
    lidars: dict[str, Lidar]  #: by sensor.

    @property
    def sensors(self) -> dict[str, Placed]:
        """The sensors by name. The first is the main lidar."""
        return {each.name: each for each in self.preset.sensors}

    @property
    def main(self) -> str:
        """The main lidar, in whose frame the poses of the others are."""
        return self.preset.sensors[0].name

    @property
    def beams(self) -> Beams:
        """Those of the main lidar."""
        return self.lidars[self.main].beams

    def of(self, sensor: str) -> Preset:
        """The preset as it is for one sensor."""
        return self.preset.of(self.sensors[sensor])

    def key(self, sensor: str) -> tuple[int, ...]:
        """Seed of a sensor's random numbers."""
        return self.seed, list(self.sensors).index(sensor)

    def random(self, sensor: str, number: int) -> np.random.Generator:
        """The random numbers of one sample. They do not depend on other samples, nor on the thread that makes it."""
        return np.random.default_rng([*self.key(sensor), 2, number])

    def mounted(self, sensor: str) -> Motion:
        """The motion of a sensor."""
        return replace(self.motion, mount=self.mounts[sensor])

    def lens(self, sensor: str = "camera") -> Lens:
        """The lens of a camera."""
        preset = self.of(sensor)
        return LENSES[preset.lens].resized(preset.width, preset.height)

    def imu_errors(self, sensor: str = "imu") -> imu.Errors:
        """The errors of an IMU."""
        return imu.Errors.of_device(self.key(sensor), self.of(sensor).unkind, self.sensors[sensor].noise)

    def radar_errors(self, sensor: str = "radar") -> RadarErrors | None:
        """The errors of a radar's board; None if it has none."""
        preset = self.of(sensor)
        unkind = preset.unkind
        if not (unkind.radar_coupling or unkind.array_phase or unkind.array_gain or unkind.phase_noise):
            return None
        return RadarErrors.of_board(preset.radar, unkind, np.random.default_rng([*self.key(sensor), 0xE44]))

    def config(self) -> dict[str, Any]:
        """The content of `config.yaml`: how the recording was made, and the extrinsics."""
        order = "lidar", "imu", "camera", "radar", "gnss"
        by_type = sorted(self.preset.sensors, key=lambda each: order.index(each.type))
        sections = {each.name: self._section(each) for each in by_type}
        return sections | ({} if self.preset.unkind.no_rig else {"rig": self._extrinsics()})

    def _section(self, sensor: Placed) -> dict[str, Any]:
        """What `config.yaml` says about a sensor, as the software of the real rig does."""
        preset = self.preset.of(sensor)
        capture = {"sys_ip": "192.168.33.30", "fpga_ip": "192.168.33.180", "data_port": 4098, "config_port": 4096}
        capture |= {"timeout": 1.0, "socket_buffer": 16777216, "delay": 60.0}
        mode, serial = f"{preset.columns}x{preset.lidar_rate}", {"port": "/dev/ttyUSB0", "baudrate": 115200}
        lidar = {"addr": None, "port_lidar": 7502, "port_imu": 7503, "mode": mode, "beams": BEAMS[preset.lidar].count}
        args: dict[str, dict[str, Any]] = {
            "lidar": lidar,
            "imu": serial,
            "camera": {"idx": 0, "width": preset.width, "height": preset.height, "fps": preset.camera_rate},
            "radar": {"radar": preset.radar.model_dump(), "capture": capture},
            "gnss": serial,
        }
        comment = {"comment": f"simulated: {preset.description}"} if sensor.type == "radar" else {}
        return {"type": sensor.type, **comment, "args": args[sensor.type]}

    def _extrinsics(self) -> dict[str, Any]:
        """Section rig: the poses that the rig was built for."""
        unknown = {"imu"} if self.preset.unkind.imu_mount else set()
        return {
            name: {"translation": mount.translation.tolist(), "rotation": mount.rotation.tolist()}
            for name, mount in _mounts(self.preset.sensors).items()
            if name != self.main and self.sensors[name].type not in unknown
        }


def build(preset: Preset, seed: int) -> Rig:
    """The rig of a preset in its scene. The seed decides noise, losses and scatterers, not the scene or the motion."""
    gait, spin_up = _GAITS[preset.carrier]
    path, height, world = _scene(preset)
    motion = Motion(path, preset.speed, height, disturbed(gait, preset.unkind, preset.speed), preset.stand, spin_up)
    rng = np.random.default_rng([seed, 0x0DD])
    clocks = _clocks(preset, rng)
    mounts = _true_mounts(preset, rng)
    lidars = {each.name: _lidar(preset.of(each), rng) for each in preset.sensors if each.type == "lidar"}
    return Rig(preset, seed, world(motion.pace), motion, clocks, mounts, lidars)


def _clocks(preset: Preset, rng: np.random.Generator) -> dict[str, Clock]:
    """The clock of each sensor. Stamps are off by a constant where the preset says so; the main lidar's never are."""
    unkind, clocks = preset.unkind, {}
    offsets = np.append(0.0, unkind.clock_offsets * rng.uniform(-1, 1, len(preset.sensors) - 1))
    for sensor, offset in zip(preset.sensors, offsets, strict=True):
        own = preset.of(sensor)
        revolution = 1 / own.lidar_rate
        clock = {
            "lidar": Clock(revolution + 0.037, revolution, 0.0004, 0.0003, lost_every=53),
            "radar": Clock(0.061, own.radar.frame_period / 1000, 0.0008, 0.0004),
            "camera": Clock(0.203, 1 / own.camera_rate, 0.0015, 0.0010, lost_every=89),
            "imu": Clock(0.012, 1 / own.imu_rate, 0.0006, 0.0005),
            "gnss": Clock(0.107, 0.2, 0.0010, 0.0005),
        }[sensor.type]
        late = float(offset) + (unkind.imu_late if sensor.type == "imu" else 0.0)
        clocks[sensor.name] = replace(clock, start=clock.start + sensor.after, delay=clock.delay + late)
    return clocks


def _true_mounts(preset: Preset, rng: np.random.Generator) -> dict[str, Mount]:
    """The poses of the sensors with the errors of mounting of IMUs."""
    mounts, unkind = _mounts(preset.sensors), preset.unkind
    for name in [each.name for each in preset.sensors if each.type == "imu"]:
        axis, any_rotation = rng.standard_normal(3), Rotation.random(rng=rng).as_matrix()
        turn = Rotation.from_rotvec(np.radians(unkind.imu_misalignment) * axis / np.linalg.norm(axis, axis=0))
        nominal = mounts[name]
        if unkind.imu_mount or unkind.imu_misalignment:
            turned = any_rotation if unkind.imu_mount else matmul(nominal.rotation, turn.as_matrix())
            mounts[name] = Mount(nominal.translation, turned)
    return mounts


def _lidar(preset: Preset, rng: np.random.Generator) -> Lidar:
    """A lidar whose errors, and whose beams, are not quite what its data sheet and its sidecar say."""
    beams, unkind = BEAMS[preset.lidar], preset.unkind
    errors = LidarErrors(unkind, 0.5 * unkind.range_bias * rng.standard_normal((beams.count, 1)))
    true = beams
    if unkind.beam_angles:
        altitude, azimuth = unkind.beam_angles * rng.standard_normal((2, beams.count))
        true = replace(beams, altitude=beams.altitude + altitude, azimuth=beams.azimuth + azimuth)
    return Lidar(beams, errors, rays(true, preset.columns))


def _scene(preset: Preset) -> tuple[ClosedPath, float, Callable[[Pace], World]]:
    """The path through the scene, the height of the lidar over it, m, and what makes the scene at the rig's pace."""
    depth, is_bike = preset.leaf_depth, preset.carrier == "bike"
    lanes = {"bike": (street.CYCLE_PATH, 1.1), "car": (street.LANE_PATH, 1.9)}
    scenes: dict[str, tuple[ClosedPath, float, Callable[[Pace], World]]] = {
        "street": (*lanes.get(preset.carrier, (street.PAVEMENT_PATH, 1.6)), lambda pace: street.world()),
        "flat": (flat.RIG_PATH, 1.25, lambda pace: flat.world()),
        "stairs": (stairs.RIG_PATH, 1.25, lambda pace: stairs.world()),
        "park": (park.RIG_PATH, 1.6, lambda pace: park.world(depth)),
        "bushes": (park.RIG_PATH, 1.6, lambda pace: park.bushes(depth)),
        "crowd": (crowd.RIG_PATH, 1.25, crowd.world),
        "tunnel": (tunnel.RIG_PATH, 1.1, lambda pace: tunnel.world()),
    }
    path, height, world = scenes[preset.scene]
    return path, 1.1 if is_bike else height, world
