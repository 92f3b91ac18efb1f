use rule derived as camera_frames with:
    input:
        needs("_camera_frames"),
    output:
        makes("_camera_frames"),


# There is a model only where the configuration names one.
if enabled("_camera_model"):

    use rule derived as camera_model with:
        input:
            needs("_camera_model"),
        output:
            makes("_camera_model"),
