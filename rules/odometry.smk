rule odom:
    input:
        sensor("lidar", "rng", "ts", "valid"),
        sensor("imu", "avel", "ts", "valid", optional=True),
    output:
        virtual(
            "_odom",
            *("pos", "rot", "vel", "acc", "avel"),
            *("inliers", "residual", "information"),
            options=("odometry", "lidar", "rig"),
        ),
    params:
        options=options("odometry", "lidar", "rig"),
    log:
        "logs/{trace}/odom.log",
    benchmark:
        "logs/{trace}/odom.tsv"
    threads: 4
    shell:
        step("rover_pipeline.odometry.steps:odom")
