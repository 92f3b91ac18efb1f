rule radar_pose:
    input:
        sensor("radar", "ts", "valid"),
        sensor("_odom", "pos", "rot", "vel", "acc", "avel", "ts", "valid"),
        trace_file("config.yaml"),
    output:
        virtual(
            "_radar_pose", "pos", "rot", "vel", "acc", options=("poses", "rig", "sync")
        ),
    params:
        options=options("poses", "rig", "sync"),
    log:
        "logs/{trace}/radar_pose.log",
    benchmark:
        "logs/{trace}/radar_pose.tsv"
    threads: 1
    shell:
        step("rover_pipeline.poses.steps:radar")


rule camera_pose:
    input:
        sensor("camera", "ts", "valid"),
        sensor("_odom", "pos", "rot", "vel", "acc", "avel", "ts", "valid"),
        trace_file("config.yaml"),
    output:
        virtual(
            "_camera_pose",
            "pos",
            "rot",
            "vel",
            "acc",
            options=("poses", "rig", "sync"),
        ),
    params:
        options=options("poses", "rig", "sync"),
    log:
        "logs/{trace}/camera_pose.log",
    benchmark:
        "logs/{trace}/camera_pose.tsv"
    threads: 1
    shell:
        step("rover_pipeline.poses.steps:camera")


rule imu_pose:
    input:
        sensor("imu", "ts", "valid"),
        sensor("_odom", "pos", "rot", "vel", "acc", "avel", "ts", "valid"),
        trace_file("config.yaml"),
    output:
        virtual(
            "_imu_pose", "pos", "rot", "vel", "acc", options=("poses", "rig", "sync")
        ),
    params:
        options=options("poses", "rig", "sync"),
    log:
        "logs/{trace}/imu_pose.log",
    benchmark:
        "logs/{trace}/imu_pose.tsv"
    threads: 1
    shell:
        step("rover_pipeline.poses.steps:imu")
