"""The metadata that an Ouster sensor gives about itself (`lidar.json`), in the form of firmware 2.3 and later."""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.sensors.lidar import Beams

#: Position of the IMU in the sensor frame, mm. Physics: Ouster Sensor Documentation, imu_to_sensor_transform.
_IMU_MM = (6.253, -11.775, 7.645)


def metadata(beams: Beams, columns: int, rate: int) -> dict[str, object]:
    """The sensor's own description of its geometry (Ouster Sensor Documentation, HTTP API, /sensor/metadata).

    Args:
        rate: revolutions per second.
    """
    offset = beams.beam_offset
    return {
        "beam_intrinsics": {
            "beam_altitude_angles": beams.altitude.tolist(),
            "beam_azimuth_angles": beams.azimuth.tolist(),
            "beam_to_lidar_transform": _transform(1.0, (offset, 0.0, 0.0)),
            "lidar_origin_to_beam_origin_mm": offset,
        },
        "calibration_status": {"reflectivity": {"timestamp": "2023-01-01T00:00:00", "valid": True}},
        "config_params": {
            "azimuth_window": [0, 360000],
            "lidar_mode": f"{columns}x{rate}",
            "operating_mode": "NORMAL",
            "timestamp_mode": "TIME_FROM_INTERNAL_OSC",
            "udp_port_imu": 7503,
            "udp_port_lidar": 7502,
            "udp_profile_imu": "LEGACY",
            "udp_profile_lidar": "RNG19_RFL8_SIG16_NIR16",
        },
        "imu_intrinsics": {"imu_to_sensor_transform": _transform(1.0, _IMU_MM)},
        "lidar_data_format": {
            "column_window": [0, columns - 1],
            "columns_per_frame": columns,
            "columns_per_packet": 16,
            "fps": rate,
            "pixel_shift_by_row": beams.pixel_shifts(columns).tolist(),
            "pixels_per_column": beams.count,
            "udp_profile_imu": "LEGACY",
            "udp_profile_lidar": "RNG19_RFL8_SIG16_NIR16",
        },
        "lidar_intrinsics": {"lidar_to_sensor_transform": _transform(-1.0, (0.0, 0.0, beams.height))},
        "sensor_info": {
            "build_date": "2022-09-21T17:47:45Z",
            "build_rev": "v2.4.0",
            "image_rev": "ousteros-image-prod-aries-v2.4.0",
            "initialization_id": 1,
            "prod_line": beams.product,
            "prod_pn": "840-103575-06",
            "prod_sn": "122201000001",
            "status": "RUNNING",
        },
        "user_data": "",
    }


def _transform(sign: float, translation_mm: tuple[float, float, float]) -> list[float]:
    """A 4x4 matrix in row-major order; `sign` -1 rotates by half a revolution about z, 1 does not rotate."""
    matrix = np.diag([sign, sign, 1.0, 1.0])
    matrix[:3, 3] = translation_mm
    return [float(element) for element in matrix.ravel()]
