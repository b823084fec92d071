"""The checks of `rota doctor`. A check is a small function that gives findings, and never raises for what it finds.

Some checks need nothing but this machine, some a server, some the database. What is missing is reported once, by the
check that needs it first, and the others are left out.
"""
