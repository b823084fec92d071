"""Benchmarks against a server that is already there, over its public API: what `rota bench` runs."""
