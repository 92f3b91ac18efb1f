"""Lidar: from staggered range images to what they show. Arrays in, arrays out."""
