# All outputs of a recording in one job, which runs Snakemake on it alone: see rover_pipeline/workflow/recordings.py.
rule recording:
    output:
        EACH.pattern,
    log:
        "logs/{trace}/recording.log",
    benchmark:
        "logs/{trace}/recording.tsv"
    threads: lambda wildcards: EACH.threads(1 if AWAY else workflow.cores)
    resources:
        mem_mb=EACH.memory_mb,
        runtime=EACH.minutes,
    shell:
        EACH.command()
