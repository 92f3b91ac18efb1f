# Beside the simulation, on another processor: what the steps will run is compiled, once on this machine.
rule kernels:
    output:
        touch(KERNELS),
    log:
        "logs/demo/kernels.log",
    shell:
        f"{shlex.quote(sys.executable)} -m rover_pipeline.numerics.prepare 2>&1 | tee {{log:q}} >&2"


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
        f"{shlex.quote(sys.executable)} -m rover_pipeline simulate {{params.demo:q}} --preset tiny --log {{log:q}}"
