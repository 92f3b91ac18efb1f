"""The rig of a preset: the poses of its sensors, its motion, and when each sensor samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.simulate.motion.motion import RIDING, ROLLING, WALKING, Motion
from rover_pipeline.simulate.presets import Preset
from rover_pipeline.simulate.scene import flat, stairs, street
from rover_pipeline.simulate.scene.world import World
from rover_pipeline.simulate.sensors.camera import LENSES
from rover_pipeline.simulate.sensors.clocks import Clock
from rover_pipeline.simulate.sensors.lidar import BEAMS, Beams


def mount_at(x: float, y: float, z: float, *, yaw: float = 0.0, pitch: float = 0.0) -> Mount:
    """A pose in the lidar frame, from metres and degrees; positive yaw points to the left, positive pitch down."""
    cy, sy, cp, sp = np.cos(a := np.radians(yaw)), np.sin(a), np.cos(b := np.radians(pitch)), np.sin(b)
    yaw_rotation = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    pitch_rotation = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    return Mount(np.array([x, y, z]), yaw_rotation @ pitch_rotation)


#: Every sensor's pose in the lidar frame. Their order gives the seeds of their random numbers.
MOUNTS = {
    "lidar": IDENTITY,
    "radar": mount_at(0.08, 0.0, -0.14, yaw=1.5, pitch=1.0),
    "camera": mount_at(0.07, 0.05, -0.09, yaw=-1.0, pitch=3.0),
    "imu": mount_at(-0.03, 0.02, -0.11, yaw=2.0),
}
#: One radar frame of this many loses packets.
PACKETS_LOST_EVERY = 31


@dataclass(frozen=True)
class Rig:
    """Everything that does not change during a recording.

    Attributes:
        motion: of the lidar.
        clocks: by sensor.
    """

    preset: Preset
    seed: int
    world: World
    motion: Motion
    clocks: dict[str, Clock]
    beams: Beams
    lens: Lens

    def key(self, sensor: str) -> tuple[int, ...]:
        """Seed of a sensor's random numbers."""
        return self.seed, list(MOUNTS).index(sensor)

    def random(self, sensor: str, number: int) -> np.random.Generator:
        """The random numbers of one sample. They do not depend on other samples, nor on the thread that makes it."""
        return np.random.default_rng([*self.key(sensor), 2, number])

    def mounted(self, sensor: str) -> Motion:
        """The motion of a sensor."""
        return self.motion.of_sensor(MOUNTS[sensor])

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
            "rig": {
                name: {"translation": mount.translation.tolist(), "rotation": mount.rotation.tolist()}
                for name, mount in MOUNTS.items()
                if name != "lidar"
            },
        }


def build(preset: Preset, seed: int) -> Rig:
    """The rig of a preset in its scene. The seed decides noise, losses and scatterers, not the scene or the motion."""
    if preset.scene == "flat":
        world, path, height = flat.world(), flat.RIG_PATH, 1.25
    elif preset.scene == "stairs":
        world, path, height = stairs.world(), stairs.RIG_PATH, 1.25
    else:
        world, path, height = street.world(), street.PAVEMENT_PATH, 1.6
    gait, spin_up = ROLLING if preset.carrier == "trolley" else WALKING, 1.2
    if preset.carrier == "bike":
        path, gait, height, spin_up = street.CYCLE_PATH, RIDING, 1.1, 4.0
    revolution = 1 / preset.lidar_rate
    clocks = {
        "lidar": Clock(revolution + 0.037, revolution, 0.0004, 0.0003, lost_every=53),
        "radar": Clock(0.061, preset.radar.frame_period / 1000, 0.0008, 0.0004),
        "camera": Clock(0.203, 1 / preset.camera_rate, 0.0015, 0.0010, lost_every=89),
        "imu": Clock(0.012, 1 / preset.imu_rate, 0.0006, 0.0005),
    }
    motion = Motion(path, preset.speed, height, gait, preset.stand, spin_up)
    lens = LENSES[preset.lens].resized(preset.width, preset.height)
    return Rig(preset, seed, world, motion, clocks, BEAMS[preset.lidar], lens)
