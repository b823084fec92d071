"""Workflows: graphs of jobs that run in dependency order.

graph.py has the graph and what is refused of it, progress.py the rules by which nodes start and end, references.py how
payloads and conditions get their values. None of it knows a database: schedulers read the state of a workflow run, ask
for the next changes, and write them in the same transaction.
"""
