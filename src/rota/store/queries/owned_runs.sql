-- Which of these runs are somebody's. $1 namespace; $2 run ids; $3 owner. Index: primary keys.
SELECT r.id
  FROM unnest($2::uuid[]) AS i (id)
 CROSS JOIN LATERAL (SELECT r.id, r.owner FROM rota.runs AS r WHERE r.namespace = $1 AND r.id = i.id OFFSET 0) AS r
 WHERE r.owner = $3
