"""What `rota doctor` looks at. A check is a small function that gives findings, and never raises for what it finds.

Checks need different things: some nothing but this machine, some a server, some the database. What a check needs and is
not there is told once, by the check that looked for it, and the others are left out.
"""
