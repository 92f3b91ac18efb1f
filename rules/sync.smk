use rule derived as sync with:
    input:
        needs("_sync"),
    output:
        makes("_sync"),


use rule derived as lidar_times with:
    input:
        needs("_lidar_times"),
    output:
        makes("_lidar_times"),


use rule derived as radar_times with:
    input:
        needs("_radar_times"),
    output:
        makes("_radar_times"),


use rule derived as camera_times with:
    input:
        needs("_camera_times"),
    output:
        makes("_camera_times"),


use rule derived as imu_times with:
    input:
        needs("_imu_times"),
    output:
        makes("_imu_times"),
