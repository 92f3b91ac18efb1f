use rule derived as odom with:
    input:
        needs("_odom"),
    output:
        makes("_odom"),


use rule derived as radar_odom with:
    input:
        needs("_radar_odom"),
    output:
        makes("_radar_odom"),
