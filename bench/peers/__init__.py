"""The same no-op workload for Rota and its peers, one after the other, on one machine.

`python -m bench.peers` runs it. Each peer has a file `peer_<name>.py` of the same shape (see `peer.py`); only that file
imports the library, in processes of the library's own environment. The processes of this package start the servers
(`servers.py`), measure from outside (`measuring.py`, `processes.py`, `tallies.py`) and write it down (`reporting.py`).
"""
