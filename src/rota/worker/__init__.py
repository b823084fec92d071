"""Workers: they claim runs, start each on the dot, and report how it went. No SQL in here."""
