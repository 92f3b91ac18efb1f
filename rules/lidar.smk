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
    shell:
        step("rover_pipeline.lidar.steps:image")
