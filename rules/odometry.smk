rule odom:
    input:
        sensor("_lidar_image", "rng", "ts", "valid"),
        sensor("lidar"),
        sensor("imu", "avel", "ts", "valid", optional=True),
        trace_file("config.yaml"),
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
    priority: 1  # the map and all poses wait for it
    shell:
        step("rover_pipeline.odometry.steps:odom")
