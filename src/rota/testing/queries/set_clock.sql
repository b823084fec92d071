-- Sets the clock. $1 the moment.
UPDATE rota_time.clock SET moment = $1
