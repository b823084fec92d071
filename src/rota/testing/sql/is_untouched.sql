-- Whether there is neither a run nor a schedule yet.
SELECT NOT EXISTS (SELECT FROM rota.runs) AND NOT EXISTS (SELECT FROM rota.jobs)
