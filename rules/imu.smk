use rule derived as imu_filtered with:
    input:
        needs("_imu_filtered"),
    output:
        makes("_imu_filtered"),
