"""The seam between scheduler and workers: a worker knows only this protocol."""
