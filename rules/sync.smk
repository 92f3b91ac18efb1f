rule sync:
    input:
        sensor(FLOW.config.sync.reference, "ts", "valid"),
        sensors("ts"),
    output:
        virtual("_sync", options="sync"),
    params:
        options=options("sync"),
    log:
        "logs/{trace}/sync.log",
    benchmark:
        "logs/{trace}/sync.tsv"
    threads: 1
    shell:
        step(f"rover_pipeline.sync.steps:to_{FLOW.config.sync.reference}")


rule lidar_times:
    input:
        sensor("lidar", "ts", "valid"),
    output:
        virtual("_lidar_times", "smooth", "number", options="sync.times"),
    params:
        options=options("sync.times"),
    log:
        "logs/{trace}/lidar_times.log",
    benchmark:
        "logs/{trace}/lidar_times.tsv"
    threads: 1
    shell:
        step("rover_pipeline.sync.steps:lidar_times")


rule radar_times:
    input:
        sensor("radar", "ts", "valid"),
    output:
        virtual("_radar_times", "smooth", "number", options="sync.times"),
    params:
        options=options("sync.times"),
    log:
        "logs/{trace}/radar_times.log",
    benchmark:
        "logs/{trace}/radar_times.tsv"
    threads: 1
    shell:
        step("rover_pipeline.sync.steps:radar_times")


rule camera_times:
    input:
        sensor("camera", "ts", "valid"),
    output:
        virtual("_camera_times", "smooth", "number", options="sync.times"),
    params:
        options=options("sync.times"),
    log:
        "logs/{trace}/camera_times.log",
    benchmark:
        "logs/{trace}/camera_times.tsv"
    threads: 1
    shell:
        step("rover_pipeline.sync.steps:camera_times")


rule imu_times:
    input:
        sensor("imu", "ts", "valid"),
    output:
        virtual("_imu_times", "smooth", "number", options="sync.times"),
    params:
        options=options("sync.times"),
    log:
        "logs/{trace}/imu_times.log",
    benchmark:
        "logs/{trace}/imu_times.tsv"
    threads: 1
    shell:
        step("rover_pipeline.sync.steps:imu_times")
