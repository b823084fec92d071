"""The pages: flask --app web run."""

from __future__ import annotations

import re

from flask import Flask, Response, abort, jsonify, redirect, render_template, request, url_for
from reports import build_report
from werkzeug.wrappers import Response as AnyResponse

import rota
from rota.client import AnswerError
from rota.contract.runs import RunOut

MONTH = re.compile(r"\d{4}-\d{2}")
MOST_ROWS = 100_000

web = Flask(__name__)
rota_client = rota.Client()


@web.get("/")
def home() -> str:
    """A form."""
    return render_template("home.html")


@web.post("/reports")
def order_report() -> AnyResponse:
    """Submits a report and shows its page. Who asks twice while it waits to be built gets the same one."""
    month, rows = request.form["month"], request.form.get("rows", 200, int)
    if not MONTH.fullmatch(month) or not 0 < rows <= MOST_ROWS:
        abort(400, "a month is 2026-11, and rows are a number")
    asked = build_report.sync.with_options(unique_key=f"report of {month}", on_duplicate="keep")
    run = asked.submit(month, rows)
    return redirect(url_for("show_report", run_id=run.id), 303)


@web.get("/reports/<run_id>")
def show_report(run_id: str) -> str:
    """A page that asks for the state below until the report is there."""
    return render_template("report.html", run_id=run_id)


@web.get("/reports/<run_id>/state")
def show_state(run_id: str) -> Response:
    """How far it is."""
    run = find(run_id)
    return jsonify(status=run.status, progress=run.progress, message=run.progress_message, error=run.error)


@web.get("/reports/<run_id>/download")
def download(run_id: str) -> Response:
    """The file."""
    run = find(run_id)
    if run.status != "success":
        abort(404, "it is not there yet")
    name = f"{run.payload['month']}.csv"
    return Response(run.result, mimetype="text/csv", headers={"Content-Disposition": f'attachment; filename="{name}"'})


def find(run_id: str) -> RunOut:
    """The run, if it is one of a report: ids are all that a visitor gives, and other runs are not theirs to see."""
    try:
        run = rota_client.run(run_id)
    except AnswerError as error:
        abort(error.status)
    if run.task != build_report.name:
        abort(404)
    return run
