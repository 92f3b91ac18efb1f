rule radar_range_doppler:
    input:
        sensor("radar", "iq", "ts", "valid"),
        trace_file("config.yaml"),
    output:
        virtual("_radar_range_doppler", "power", options="radar.range_doppler"),
    params:
        options=options("radar.range_doppler"),
    log:
        "logs/{trace}/radar_range_doppler.log",
    benchmark:
        "logs/{trace}/radar_range_doppler.tsv"
    threads: threads(4)
    shell:
        step("rover_pipeline.radar.steps:range_doppler")


rule radar_range_azimuth:
    input:
        sensor("radar", "iq", "ts", "valid"),
        trace_file("config.yaml"),
    output:
        virtual("_radar_range_azimuth", "power", options="radar.range_azimuth"),
    params:
        options=options("radar.range_azimuth"),
    log:
        "logs/{trace}/radar_range_azimuth.log",
    benchmark:
        "logs/{trace}/radar_range_azimuth.tsv"
    threads: threads(4)
    shell:
        step("rover_pipeline.radar.steps:range_azimuth")


rule radar_spectrum:
    input:
        sensor("radar", "iq", "ts", "valid"),
        trace_file("config.yaml"),
    output:
        virtual("_radar_spectrum", "spectrum", options="radar.spectrum"),
    params:
        options=options("radar.spectrum"),
    log:
        "logs/{trace}/radar_spectrum.log",
    benchmark:
        "logs/{trace}/radar_spectrum.tsv"
    threads: threads(4)
    shell:
        step("rover_pipeline.radar.steps:spectrum")


rule radar_points:
    input:
        sensor("radar", "iq", "ts", "valid"),
        trace_file("config.yaml"),
    output:
        virtual(
            "_radar_points", "xyz", "doppler", "snr", "count", options="radar.points"
        ),
    params:
        options=options("radar.points"),
    log:
        "logs/{trace}/radar_points.log",
    benchmark:
        "logs/{trace}/radar_points.tsv"
    threads: threads(4)
    shell:
        step("rover_pipeline.radar.steps:points")


rule radar_velocity:
    input:
        sensor("_radar_points", "xyz", "doppler", "count", "ts", "valid"),
        sensor("radar"),
    output:
        virtual("_radar_velocity", "vel", "cov", "inliers", options="radar.velocity"),
    params:
        options=options("radar.velocity"),
    log:
        "logs/{trace}/radar_velocity.log",
    benchmark:
        "logs/{trace}/radar_velocity.tsv"
    threads: threads(4)
    shell:
        step("rover_pipeline.radar.steps:velocity")
