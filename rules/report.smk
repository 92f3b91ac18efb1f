rule report:
    input:
        sensors("ts", "valid"),
        trace_file("config.yaml"),
        everything("_report"),
    output:
        product("_report", "index.html", "summary.json", options="report"),
    params:
        options=options("report"),
    log:
        "logs/{trace}/report.log",
    benchmark:
        "logs/{trace}/report.tsv"
    threads: 1
    shell:
        step("rover_pipeline.report.steps:report")
