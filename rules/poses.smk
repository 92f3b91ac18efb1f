use rule derived as radar_pose with:
    input:
        needs("_radar_pose"),
    output:
        makes("_radar_pose"),


use rule derived as camera_pose with:
    input:
        needs("_camera_pose"),
    output:
        makes("_camera_pose"),


use rule derived as imu_pose with:
    input:
        needs("_imu_pose"),
    output:
        makes("_imu_pose"),
