"""Odometry: where the lidar was, from what it saw. Arrays in, arrays out."""
