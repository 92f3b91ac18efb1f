use rule derived as lidar_image with:
    input:
        needs("_lidar_image"),
    output:
        makes("_lidar_image"),


use rule derived as lidar_points with:
    input:
        needs("_lidar_points"),
    output:
        makes("_lidar_points"),
