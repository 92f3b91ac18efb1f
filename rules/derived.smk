# The pattern of every rule that the table of steps declares. It is never asked for itself.
rule derived:
    output:
        FLOW.pattern,
    params:
        step=FLOW.step_name,
        version=FLOW.step_version,
        options=FLOW.step_options,
    log:
        "logs/{trace}/{product}.log",
    benchmark:
        "logs/{trace}/{product}.tsv"
    threads: threads
    shell:
        FLOW.command()
