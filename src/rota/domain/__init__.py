"""Pure rules, no I/O: what a job and a run are, when a schedule fires, when a run is retried."""
