"""Virtual sensor of the lidar's images: `_lidar_image`."""

from __future__ import annotations

import numpy as np

from rover_pipeline.lidar.geometry import destagger, sensor_info


def image(
    rng: np.ndarray, rfl: np.ndarray | None = None, nir: np.ndarray | None = None, *, metadata: str
) -> dict[str, np.ndarray]:
    """Lidar images with columns at equal azimuth.

    Args:
        rng, rfl, nir: (frame, beam, column), columns in time order; None where the lidar has no such channel.
        metadata: `lidar.json`, the sensor's own.

    Returns:
        The same types, (frame, beam, column), columns in azimuth order.
    """
    info = sensor_info(metadata)
    images = {"rng": rng, "rfl": rfl, "nir": nir}
    return {name: destagger(each, info) for name, each in images.items() if each is not None}
