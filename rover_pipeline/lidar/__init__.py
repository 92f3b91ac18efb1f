"""Lidar: from staggered range images to destaggered ones and to points. Arrays in, arrays out."""
