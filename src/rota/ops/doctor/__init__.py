"""The checks of `rota doctor`: small functions that return findings.

Some need a server or the database. If that is missing, the first check reports it and the others are skipped.
"""
