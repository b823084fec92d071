-- Sets the clock. :moment the moment.
UPDATE rota_time.clock SET moment = :moment
