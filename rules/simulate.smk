# With no recording at hand: a small one with known truth.
rule simulate:
    output:
        expand(
            "{demo}/{file}",
            demo=FLOW.demo,
            file=["config.yaml", *(f"{name}/meta.json" for name in FLOW.demo_sensors)],
        ),
    log:
        "logs/demo/simulate.log",
    benchmark:
        "logs/demo/simulate.tsv"
    params:
        demo=FLOW.demo,
    shell:
        f"{sys.executable} -m rover_pipeline simulate {{params.demo:q}} --preset tiny --log {{log:q}}"
