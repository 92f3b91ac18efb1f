# With no recording at hand: a small one with known truth.
rule simulate:
    output:
        expand(
            "{demo}/{file}",
            demo=FLOW.demo,
            file=["config.yaml", "lidar/meta.json", "radar/meta.json"],
        ),
    log:
        "logs/demo/simulate.log",
    benchmark:
        "logs/demo/simulate.tsv"
    params:
        demo=FLOW.demo,
    shell:
        f"{sys.executable} -m rover_pipeline simulate {{params.demo:q}} --preset tiny 2> {{log:q}}"
