"""The seam between scheduler and workers: a worker knows this protocol and nothing else."""
