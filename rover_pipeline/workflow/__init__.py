"""What Snakemake is told: recordings, targets, inputs of rules, and how it is started."""
