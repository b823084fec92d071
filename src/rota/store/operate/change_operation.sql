-- Gives an operation another state, if it is in one of these. A resume forgets failures that were judged before.
-- Index: primary key.
-- Locks: the operation.
UPDATE rota.operations AS o
   SET state = :state, reason = :reason, revision = o.revision + 1, changed_at = now(),
       judged_ended = CASE WHEN :state = 'running' THEN o.ended ELSE o.judged_ended END,
       judged_failed = CASE WHEN :state = 'running' THEN o.failed ELSE o.judged_failed END
 WHERE o.namespace = :namespace AND o.id = :operation AND o.state = ANY (:states::text[])
RETURNING *
