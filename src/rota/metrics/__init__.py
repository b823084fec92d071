"""Metrics of a process: instruments (instruments.py), all that Rota has (catalogue.py), and the ways out.

`exposition` writes them for Prometheus, `page` serves that on a port, `statsd` and `otlp` send them.
"""
