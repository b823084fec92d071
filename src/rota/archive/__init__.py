"""Days of history in object storage.

`layout` says how a day is laid out in Parquet files, `day_writer` writes one, `day_check` reads it back, `lookup` finds
runs in it. Which days are archived is in the database (store/archive), and so is what answers for a run: a day is
detached from history in the transaction that says so.
"""
