# What shares the raw bytes of a recording, and its brief steps, are made by one job each: see
# rover_pipeline/workflow/passes.py.
for name in PASSES.names:

    rule:
        name:
            PASSES.rule(name)
        input:
            PASSES.needs(name),
        output:
            PASSES.pattern(name),
        log:
            f"logs/{{trace}}/{PASSES.rule(name)}.log",
        benchmark:
            f"logs/{{trace}}/{PASSES.rule(name)}.tsv"
        threads: PASSES.threads(name, threads(4, beside=name))
        priority: PASSES.priority(name)
        params:
            name=name,  # the command is evaluated once more when the job runs: then it is the last one
        shell:
            PASSES.command()
