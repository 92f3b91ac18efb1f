"""What Snakemake is given: recordings, targets, inputs of rules, and how it is started."""
