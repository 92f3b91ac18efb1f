use rule derived as radar_range_doppler with:
    input:
        needs("_radar_range_doppler"),
    output:
        makes("_radar_range_doppler"),
    threads: threads(4, beside="radar")


use rule derived as radar_range_azimuth with:
    input:
        needs("_radar_range_azimuth"),
    output:
        makes("_radar_range_azimuth"),
    threads: threads(4, beside="radar")


use rule derived as radar_spectrum with:
    input:
        needs("_radar_spectrum"),
    output:
        makes("_radar_spectrum"),
    threads: threads(4, beside="radar")


use rule derived as radar_points with:
    input:
        needs("_radar_points"),
    output:
        makes("_radar_points"),
    threads: threads(4, beside="radar")


use rule derived as radar_velocity with:
    input:
        needs("_radar_velocity"),
    output:
        makes("_radar_velocity"),
    threads: 1


use rule derived as radar_quality with:
    input:
        needs("_radar_quality"),
    output:
        makes("_radar_quality"),
    threads: threads(4, beside="radar")


use rule derived as radar_odom with:
    input:
        needs("_radar_odom"),
    output:
        makes("_radar_odom"),
    threads: 1
