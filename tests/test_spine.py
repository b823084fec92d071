async def test_a_submitted_job_is_queued_in_live_runs(api, sql):
    answer = await api.post("/v1/jobs", json={"name": "a", "scheduleType": "immediate", "task": "rota.echo"})
    assert answer.status_code == 201, answer.text
    assert answer.json()["status"] == "queued"
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1
