"""Lidar: from staggered range images to destaggered ones and to points. Arrays in, arrays out."""

from rover_pipeline.lookup import LateCalls

LateCalls("ouster.sdk.bag")  # it imports all messages of ROS, which takes a quarter of a second
