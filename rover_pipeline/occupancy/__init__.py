"""Lidar returns in the geometry of other sensors: polar occupancy for the radar, depth for the camera."""
