"""Virtual sensor of the lidar's images: `_lidar_image`."""

from __future__ import annotations

import numpy as np

from rover_pipeline.lidar.geometry import destagger, sensor_info


def image(rng: np.ndarray, rfl: np.ndarray, nir: np.ndarray, *, metadata: str) -> dict[str, np.ndarray]:
    """Lidar images with columns at equal azimuth.

    Args:
        rng, rfl, nir: (frame, beam, column), columns in time order.
        metadata: `lidar.json`, the sensor's own.

    Returns:
        The same types, (frame, beam, column), columns in azimuth order.
    """
    info = sensor_info(metadata)
    return {"rng": destagger(rng, info), "rfl": destagger(rfl, info), "nir": destagger(nir, info)}
