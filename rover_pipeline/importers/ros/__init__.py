"""Import of recordings of ROS 1 and ROS 2: `.bag`, `.mcap` and `.db3` files, and folders of rosbag2."""
