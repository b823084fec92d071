"""Pure rules, no I/O: what a job and a run are, when a schedule fires, when and whether to try again."""
