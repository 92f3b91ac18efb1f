"""What the lidar sees as other sensors would: polar occupancy for the radar, depth for the camera."""
