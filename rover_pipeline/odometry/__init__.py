"""Odometry: the lidar's trajectory from its own sweeps and the gyroscope's rates."""
