"""Schedulers: they fire, promote, readmit and reap, each for the shards it owns."""
