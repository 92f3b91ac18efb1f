"""Maps: all sweeps of a recording in one frame, as points, as an occupancy grid and as a picture."""
