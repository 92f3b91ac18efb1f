rule map:
    input:
        sensor("_lidar_image", "rng", "rfl", "ts", "valid"),
        sensor("lidar"),
        sensor("_odom", "pos", "rot", "vel", "acc", "avel", "ts", "valid"),
    output:
        product(
            "_map",
            "map.ply",
            "occupancy.pgm",
            "occupancy.yaml",
            "bev.png",
            options=("map", "lidar"),
        ),
    params:
        options=options("map", "lidar"),
    log:
        "logs/{trace}/map.log",
    benchmark:
        "logs/{trace}/map.tsv"
    threads: threads(4)
    shell:
        step("rover_pipeline.mapping.steps:build")
