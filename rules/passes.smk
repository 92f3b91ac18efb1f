# What shares the raw bytes of a recording, and its brief steps, are made by one job each: see
# rover_pipeline/workflow/passes.py.
for name in PASSES.names:

    rule:
        name:
            PASSES.rule(name)
        input:
            PASSES.needs(name),
        output:
            marker_file(PASSES.folder, name, "{trace}"),
        log:
            f"logs/{{trace}}/{PASSES.rule(name)}.log",
        benchmark:
            f"logs/{{trace}}/{PASSES.rule(name)}.tsv"
        threads: 1 if PASSES.rule(name) == name else threads(4, beside=name)  # brief ones are made one by one
        priority: 1 if name == "brief_steps" else 0  # more than one step waits for them
        params:
            name=name,  # the command is evaluated once more when the job runs: then it is the last one
        shell:
            PASSES.command()
