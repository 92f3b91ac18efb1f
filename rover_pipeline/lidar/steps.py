"""Virtual sensors made from the lidar."""

from __future__ import annotations

import numpy as np

from rover_pipeline.steps import step


@step(
    inputs={"rng": "lidar/rng", "rfl": "lidar/rfl", "nir": "lidar/nir"},
    files={"metadata": "lidar/lidar.json"},
    outputs={
        "rng": "Range, mm; 0 = no return, 65535 = clipped. [beam, column], destaggered.",
        "rfl": "Reflectivity. [beam, column], destaggered.",
        "nir": "Ambient near infrared, photons. [beam, column], destaggered.",
    },
    version=1,
)
def image(rng: np.ndarray, rfl: np.ndarray, nir: np.ndarray, *, metadata: str) -> dict[str, np.ndarray]:
    """Lidar images with columns at equal azimuth.

    Args:
        rng, rfl, nir: (frame, beam, column), columns in time order.
        metadata: `lidar.json`, the sensor's own.

    Returns:
        The same types, (frame, beam, column), columns in azimuth order.
    """
    from rover_pipeline.lidar.geometry import destagger, sensor_info

    info = sensor_info(metadata)
    return {"rng": destagger(rng, info), "rfl": destagger(rfl, info), "nir": destagger(nir, info)}
