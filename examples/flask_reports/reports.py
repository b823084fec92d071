"""Reports that take a while: rota worker --app reports:app."""

from __future__ import annotations

import csv
import io
import time

import rota

app = rota.App("reports")


@app.task(retries=2, timeout="10m", isolation="process")
def build_report(context: rota.Context, month: str, rows: int = 200) -> str:
    """Makes a CSV file, row by row, and says how far it is. What it returns is kept as the run's result, in object
    storage when it is large."""
    output = io.StringIO()
    writer = csv.writer(output)
    writer.writerow(["month", "row", "square"])
    for number in range(rows):
        writer.writerow([month, number, number * number])
        context.progress((number + 1) / rows, f"row {number + 1} of {rows}")
        time.sleep(0.005)  # the work
    return output.getvalue()
