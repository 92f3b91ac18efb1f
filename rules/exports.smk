# Datasets in other formats: a rule for each format, made from all recordings when `exports` names it.
for name in EXPORTS.names:

    rule:
        name:
            f"export_{name}"
        input:
            EXPORTS.needs(name),
        output:
            EXPORTS.makes(name),
        params:
            format=name,
            entries=EXPORTS.entries,
            # Functions, for a path and JSON may have braces.
            folder=lambda wildcards, name=name: str(EXPORTS.root / name),
            stamp=os.path.basename(EXPORTS.makes(name)),
            request=lambda wildcards, name=name: EXPORTS.request(name),
        log:
            f"logs/exports/{name}.log",
        benchmark:
            f"logs/exports/{name}.tsv"
        threads: threads
        shell:
            EXPORTS.command()
