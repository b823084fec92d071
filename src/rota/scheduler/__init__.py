"""Schedulers: they fire, promote, admit and reap, each for the shards it owns."""
