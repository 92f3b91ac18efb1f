rule imu_filtered:
    input:
        sensor("imu", "acc", "avel", "ts", "valid"),
    output:
        virtual("_imu_filtered", "acc", "avel", "quat", options=("imu", "sync")),
    params:
        options=options("imu", "sync"),
    log:
        "logs/{trace}/imu_filtered.log",
    benchmark:
        "logs/{trace}/imu_filtered.tsv"
    threads: 1
    shell:
        step("rover_pipeline.imu.steps:filtered")
