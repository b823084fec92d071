"""What submitting costs a user: Rota's SDK as a program uses it, PGQueuer's way to do the same, and a bare server.

`make bench-front-door` runs it. `measures.py` says what is compared; each measure is taken in turns, Rota and PGQueuer
one after the other, round by round, each turn on an empty database with processes of its own. `rota_side.py` and
`pgqueuer_side.py` are the programs that submit (`side.py` is what they share), `echo.py` is the bare server, `turns.py`
takes a turn and `report.py` writes down what came out. Servers, processes and counts are those of `bench.peers`, and so
is the environment.
"""
