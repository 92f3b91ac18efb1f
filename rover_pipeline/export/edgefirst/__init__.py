"""EdgeFirst datasets (Au-Zone, EdgeFirst Dataset Format 2026.04), as edgefirst-client reads them.

    OUT/OUT.arrow                          table of poses, splits and boxes
    OUT/OUT/SEQ/SEQ_FFF.camera.jpeg     the recorded picture, with its time in EXIF
                      .depth.png        16 bit, mm along the camera's axis, of the whole picture, 0 = none
                      .radar.png        complex range-Doppler cube, see samples.py
                      .radar.pcd        x y z speed power noise rcs
                      .lidar.pcd        x y z intensity, deskewed
                      .lidar.png        16 bit, mm, destaggered range image, 0 = none
                      .lidar.jpeg       destaggered reflectivity
    OUT/OUT.zip                            the same files, stored
    OUT/sensors.json                       ours: scales, frames, lens and extrinsics of each sequence

SEQ is the recording's name with its date and time, FFF the number of the sweep in the recording (readers know it with
three digits or more than those, and not with more zeros). A sample is a sweep of the lidar, with the picture and the
radar frame that `_sync` gives. All clouds and boxes are in the frame of the lidar at its time stamp, front-left-up, m:
box3d is the smallest box along its axes around an object, because the format has no angle. `pose` is yaw, pitch, roll
(intrinsic z, y, x) of the lidar in the world of `_odom`, degrees.
"""

from rover_pipeline.export.edgefirst.layout import LAYOUT, describe, relations
from rover_pipeline.export.edgefirst.samples import write

__all__ = ["LAYOUT", "describe", "relations", "write"]
