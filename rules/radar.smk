use rule derived as radar_range_doppler with:
    input:
        needs("_radar_range_doppler"),
    output:
        makes("_radar_range_doppler"),


use rule derived as radar_micro_doppler with:
    input:
        needs("_radar_micro_doppler"),
    output:
        makes("_radar_micro_doppler"),


use rule derived as radar_range_azimuth with:
    input:
        needs("_radar_range_azimuth"),
    output:
        makes("_radar_range_azimuth"),


use rule derived as radar_spectrum with:
    input:
        needs("_radar_spectrum"),
    output:
        makes("_radar_spectrum"),


use rule derived as radar_points with:
    input:
        needs("_radar_points"),
    output:
        makes("_radar_points"),


use rule derived as radar_velocity with:
    input:
        needs("_radar_velocity"),
    output:
        makes("_radar_velocity"),


use rule derived as radar_quality with:
    input:
        needs("_radar_quality"),
    output:
        makes("_radar_quality"),


use rule derived as radar_odom with:
    input:
        needs("_radar_odom"),
    output:
        makes("_radar_odom"),
