-- Made when all rows are there, which is faster than to keep them up.
CREATE INDEX records_run ON records (run, name);
CREATE INDEX quantities_run ON quantities (run, quantity);
