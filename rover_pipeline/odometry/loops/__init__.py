"""Loop closure: drift is removed where the lidar comes back to a location that it has visited before."""
