"""Poses of every sensor at its own times, from the lidar's trajectory. Arrays in, arrays out."""
