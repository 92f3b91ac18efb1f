"""The rig of a preset: where its sensors are, how it moves, and when each sensor samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.simulate import flat, stairs, street
from rover_pipeline.simulate.camera import wide
from rover_pipeline.simulate.clocks import Clock
from rover_pipeline.simulate.lidar import BEAMS, Beams
from rover_pipeline.simulate.motion import IDENTITY, RIDING, ROLLING, WALKING, Motion, Pose
from rover_pipeline.simulate.presets import Preset
from rover_pipeline.simulate.world import World

#: Every sensor's pose in the lidar frame.
MOUNTS = {
    "lidar": IDENTITY,
    "radar": Pose.at(0.08, 0.0, -0.14, yaw=1.5, pitch=1.0),
    "camera": Pose.at(0.07, 0.05, -0.09, yaw=-1.0, pitch=3.0),
    "imu": Pose.at(-0.03, 0.02, -0.11, yaw=2.0),
}
#: The number that keeps the random numbers of the sensors apart.
NUMBERS = {name: number for number, name in enumerate(MOUNTS)}
#: Of this many radar frames one loses packets.
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
        return self.seed, NUMBERS[sensor]

    def random(self, sensor: str, number: int) -> np.random.Generator:
        """The random numbers of one frame: they depend on nothing that another frame or thread does."""
        return np.random.default_rng([*self.key(sensor), 2, number])

    def mounted(self, sensor: str) -> Motion:
        return self.motion.of(MOUNTS[sensor])

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
                name: {"translation": pose.translation.tolist(), "rotation": pose.rotation.tolist()}
                for name, pose in MOUNTS.items()
                if name != "lidar"
            },
        }


def build(preset: Preset, seed: int) -> Rig:
    """The rig of a preset in its place. The seed decides noise, losses and small reflections, not the place."""
    if preset.scene == "flat":
        world, loop, height = flat.world(), flat.WAY, 1.25
    elif preset.scene == "stairs":
        world, loop, height = stairs.world(), stairs.WAY, 1.25
    else:
        world, loop, height = street.world(), street.PAVEMENT_WAY, 1.6
    gait, spin_up = WALKING, 1.2
    if preset.carrier == "trolley":
        gait = ROLLING
    if preset.carrier == "bike":
        loop, gait, height, spin_up = street.CYCLE_WAY, RIDING, 1.1, 4.0
    revolution = 1 / preset.lidar_rate
    clocks = {
        "lidar": Clock(revolution + 0.037, revolution, 0.0004, 0.0003, lost_every=53),
        "radar": Clock(0.061, preset.radar.frame_period / 1000, 0.0008, 0.0004),
        "camera": Clock(0.203, 1 / preset.camera_rate, 0.0015, 0.0010, lost_every=89),
        "imu": Clock(0.012, 1 / preset.imu_rate, 0.0006, 0.0005),
    }
    return Rig(
        preset=preset,
        seed=seed,
        world=world,
        motion=Motion(loop, preset.speed, height, gait, preset.stand, spin_up),
        clocks=clocks,
        beams=BEAMS[preset.lidar],
        lens=wide(preset.width, preset.height, 80.0),
    )
