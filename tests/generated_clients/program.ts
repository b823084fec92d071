// Uses the types that openapi-typescript makes: submits a job, reads its status, changes and lists jobs.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./rota.d.ts";

const [url, token] = process.argv.slice(2) as [string, string];
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });

const hello: components["schemas"]["JobIn"] = { name: "from typescript", task: "rota.echo", payload: { hello: "world" } };
const made = await client.POST("/v1/jobs", { body: hello });
assert.ok(made.data?.runId, JSON.stringify(made.error));
const run = await client.GET("/v1/runs/{runId}", {
  params: { path: { runId: made.data.runId }, query: { waitSeconds: 60 } },
});
assert.equal(run.data?.status, "success");
assert.ok(Date.parse(run.data.createdAt) <= Date.now() + 60_000);

const jobId: string = made.data.jobId;
const status = await client.GET("/v1/jobs/{jobId}/status", { params: { path: { jobId } } });
assert.deepEqual([status.data?.status, status.data?.progress], ["success", "100%"]);

const later = new Date(Date.now() + 86_400_000);
const waiting = await client.POST("/v1/jobs", {
  body: { name: "from typescript", task: "rota.echo", scheduleType: "future", scheduleTime: later.getTime() },
});
assert.ok(waiting.data, JSON.stringify(waiting.error));
const path = { jobId: waiting.data.jobId };
const changed = await client.PUT("/v1/jobs/{jobId}", { params: { path }, body: { maxRetries: 7 } });
assert.equal(changed.data?.maxRetries, 7);
const shown = await client.GET("/v1/jobs/{jobId}", { params: { path } });
assert.equal(new Date(shown.data?.scheduleTime ?? 0).getTime(), later.getTime());

const listed = await client.GET("/v1/jobs", { params: { query: { name: "from typescript", limit: 10 } } });
assert.deepEqual(new Set(listed.data?.items.map((job) => job.jobId)), new Set([jobId, waiting.data.jobId]));

const refused = await client.POST("/v1/jobs", { body: { name: "from typescript", task: "no task" } });
assert.deepEqual(refused.error?.errors?.map((error) => error.field), ["task"]);
const cancelled = await client.DELETE("/v1/jobs/{jobId}", { params: { path } });
assert.equal(cancelled.data?.status, "cancelled");
