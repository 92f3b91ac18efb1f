"""Registration: the trajectory from the distances of lidar points to the planes of a map."""
