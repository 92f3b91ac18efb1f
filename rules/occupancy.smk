# With the tilt taken out, or the motion, the rig's way is an input too.
LEVEL = FLOW.config.occupancy.level
MOTION = FLOW.config.depth.motion


rule occupancy:
    input:
        sensor("_lidar_image", "rng", "ts", "valid"),
        sensor("lidar"),
        sensor("radar", optional=True),
        *(
            [sensor("_odom", "rot"), sensor("imu", "acc", optional=True)]
            if LEVEL
            else []
        ),
        trace_file("config.yaml"),
    output:
        virtual("_occupancy", "occupancy", options=("occupancy", "rig")),
    params:
        options=options("occupancy", "rig"),
    log:
        "logs/{trace}/occupancy.log",
    benchmark:
        "logs/{trace}/occupancy.tsv"
    threads: threads(4)
    shell:
        step(
            "rover_pipeline.occupancy.steps:"
            + ("level_occupancy" if LEVEL else "occupancy")
        )


rule bev:
    input:
        sensor("_lidar_image", "rng", "ts", "valid"),
        sensor("lidar"),
        sensor("radar", optional=True),
        *(
            [sensor("_odom", "rot"), sensor("imu", "acc", optional=True)]
            if LEVEL
            else []
        ),
        trace_file("config.yaml"),
    output:
        virtual("_bev", "occupancy", options=("occupancy", "rig")),
    params:
        options=options("occupancy", "rig"),
    log:
        "logs/{trace}/bev.log",
    benchmark:
        "logs/{trace}/bev.tsv"
    threads: threads(4)
    shell:
        step("rover_pipeline.occupancy.steps:" + ("level_bev" if LEVEL else "bev"))


rule camera_depth:
    input:
        sensor("camera", "ts", "valid"),
        sensor("_lidar_image", "rng", "ts", "valid"),
        sensor("lidar"),
        *(
            [sensor("_odom", "pos", "rot", "vel", "acc", "avel", "ts", "valid")]
            if MOTION
            else []
        ),
        trace_file("config.yaml"),
    output:
        virtual("_camera_depth", "depth", options=("depth", "rig", "lidar", "sync")),
    params:
        options=options("depth", "rig", "lidar", "sync"),
    log:
        "logs/{trace}/camera_depth.log",
    benchmark:
        "logs/{trace}/camera_depth.tsv"
    threads: threads(4)
    shell:
        step(
            "rover_pipeline.occupancy.depth_steps:"
            + ("depth" if MOTION else "still_depth")
        )
