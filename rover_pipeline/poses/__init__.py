"""Poses of every sensor at its own times, from the lidar's. Arrays in, arrays out."""
