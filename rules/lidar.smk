rule lidar_image:
    input:
        sensor("lidar", "rng", "rfl", "nir", "ts", "valid"),
    output:
        virtual("_lidar_image", "rng", "rfl", "nir"),
    params:
        options=options(),
    log:
        "logs/{trace}/lidar_image.log",
    benchmark:
        "logs/{trace}/lidar_image.tsv"
    threads: 4
    priority: 1  # odometry and the map wait for it
    shell:
        step("rover_pipeline.lidar.steps:image")


COMPENSATE = FLOW.config.lidar.points.compensate


rule lidar_points:
    input:
        sensor("lidar", "rng", "rfl", "nir", "ts", "valid"),
        *([sensor("_odom")] if COMPENSATE else []),
    output:
        virtual("_lidar_points", "xyz", "rfl", "nir", options="lidar.points"),
    params:
        options=options("lidar.points"),
    log:
        "logs/{trace}/lidar_points.log",
    benchmark:
        "logs/{trace}/lidar_points.tsv"
    threads: threads(4)
    shell:
        step(f"rover_pipeline.lidar.steps:{'compensated_' * COMPENSATE}points")
