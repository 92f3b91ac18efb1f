# What shares the raw bytes of a recording is made by one job: see rover_pipeline/workflow/passes.py.
for name in PASSES.names:

    rule:
        name:
            f"{name}_pass"
        input:
            PASSES.needs(name),
        output:
            PASSES.pattern(name),
        log:
            f"logs/{{trace}}/{name}_pass.log",
        benchmark:
            f"logs/{{trace}}/{name}_pass.tsv"
        threads: threads(4)
        shell:
            PASSES.command(name)
