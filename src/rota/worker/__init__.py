"""Workers: they claim runs, start each one on time and report the outcome. No SQL in here."""
