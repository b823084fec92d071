-- A worker that stopped in good order leaves. $1 id. Claims left in its name (there should be none) are reaped.
UPDATE rota.workers SET gone_at = now(), gone_why = 'stopped', busy = 0
 WHERE id = $1 AND gone_at IS NULL
