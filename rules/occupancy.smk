use rule derived as bev with:
    input:
        needs("_bev"),
    output:
        makes("_bev"),


use rule derived as occupancy with:
    input:
        needs("_occupancy"),
    output:
        makes("_occupancy"),


use rule derived as camera_depth with:
    input:
        needs("_camera_depth"),
    output:
        makes("_camera_depth"),
