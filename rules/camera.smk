rule camera_frames:
    input:
        sensor("camera", "video.avi", "ts", "valid"),
    output:
        virtual("_camera_frames", "image", options="camera.frames"),
    params:
        options=options("camera.frames"),
    log:
        "logs/{trace}/camera_frames.log",
    benchmark:
        "logs/{trace}/camera_frames.tsv"
    threads: threads(4)
    shell:
        step("rover_pipeline.camera.steps:frames")


# There is a model only where the configuration names one.
if FLOW.config.camera.model.path:

    rule camera_model:
        input:
            sensor("_camera_frames", "image", "ts", "valid"),
        output:
            virtual(
                "_camera_model",
                FLOW.config.camera.model.output,
                options="camera.model",
            ),
        params:
            options=options("camera.model"),
        log:
            "logs/{trace}/camera_model.log",
        benchmark:
            "logs/{trace}/camera_model.tsv"
        threads: threads(4)
        shell:
            step("rover_pipeline.camera.steps:model")
