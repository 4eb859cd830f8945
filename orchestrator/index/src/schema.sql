-- Schema of index.sqlite. docs/data.md explains it; SCHEMA in fill.rs is its version. factors.rs puts the columns of factors in.
-- NULL in them: left to the MPI library, or the factor says nothing of the point; `user` is a JSON object of the free factors.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE points (
    id TEXT PRIMARY KEY, seq INTEGER NOT NULL,
    {factors},
    baseline INTEGER NOT NULL -- 1: the smallest program, added to measure the libraries' memory; in no table of reports
);

CREATE TABLE runs (
    id TEXT PRIMARY KEY, seq INTEGER NOT NULL, point TEXT NOT NULL REFERENCES points(id),
    kind TEXT NOT NULL CHECK (kind IN ('warmup', 'measured')), repeat INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ({run_outcomes})),
    attempts INTEGER NOT NULL, cause TEXT, detail TEXT,
    started TEXT, ended TEXT, -- of the last attempt, UTC
    dir TEXT,                 -- of its artefacts, relative to the campaign's directory
    records TEXT NOT NULL CHECK (records IN ({records_states})),
    records_detail TEXT,
    block INTEGER             -- the day or fleet that it is planned for, from 1; NULL: runs are not divided
);
CREATE INDEX runs_point ON runs (point);

CREATE TABLE attempts (
    run TEXT NOT NULL REFERENCES runs(id), attempt INTEGER NOT NULL, started TEXT, ended TEXT,
    result TEXT NOT NULL CHECK (result IN ({attempt_results})), cause TEXT, detail TEXT
);

CREATE TABLE records (
    run TEXT NOT NULL REFERENCES runs(id), name TEXT NOT NULL, value REAL, unit TEXT NOT NULL, source TEXT NOT NULL, artefact TEXT,
    ckpt TEXT, rank TEXT, role TEXT, image TEXT, zone TEXT, kind TEXT, rule TEXT,
    labels TEXT NOT NULL      -- JSON object of all labels
);

-- Figures of merit, from the applications' descriptors.
CREATE TABLE figures (
    app TEXT NOT NULL, name TEXT NOT NULL, unit TEXT NOT NULL, better TEXT NOT NULL CHECK (better IN ('lower', 'higher', 'neither')),
    PRIMARY KEY (app, name)
) WITHOUT ROWID;

CREATE TABLE facts (run TEXT NOT NULL REFERENCES runs(id), key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (run, key)) WITHOUT ROWID;

CREATE TABLE excluded (
    seq INTEGER PRIMARY KEY,
    {factors},
    by TEXT NOT NULL, reason TEXT NOT NULL
);

-- Points that needed no further run, by the rule of the campaign.
CREATE TABLE decisions (
    point TEXT PRIMARY KEY REFERENCES points(id), repeats INTEGER NOT NULL,
    is_narrow INTEGER NOT NULL, -- 0: after the maximum number of runs its interval was still wider than requested
    reason TEXT NOT NULL
) WITHOUT ROWID;

-- Instances ordered from a cloud. Their cost is counted until their end, or until the last line of the journal.
CREATE TABLE leases (
    seq INTEGER PRIMARY KEY, lease TEXT NOT NULL, site TEXT NOT NULL, region TEXT NOT NULL, instance_type TEXT NOT NULL,
    spot INTEGER NOT NULL, instances INTEGER NOT NULL, intended TEXT NOT NULL,
    ended TEXT,               -- NULL: unknown
    instance_s REAL NOT NULL, -- total time of all instances
    usd_per_hour REAL,        -- of one, disks and address included; NULL: unknown
    usd REAL,                 -- NULL: unknown
    price TEXT                -- source of the price, with its date
);

-- The libraries' private anonymous memory in each process, bytes, measured with the campaign's own smallest program.
CREATE TABLE baselines (
    site TEXT NOT NULL, mpi TEXT NOT NULL, mapping TEXT NOT NULL, bytes REAL NOT NULL,
    more INTEGER NOT NULL,    -- 1: it is more than the constant that cvc carries
    PRIMARY KEY (site, mpi, mapping)
) WITHOUT ROWID;

-- Data fetched from the instances of clouds, failed transfers included.
CREATE TABLE transfers (
    site TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL,
    usd REAL                  -- NULL: unknown
);

CREATE TABLE summaries (
    point TEXT NOT NULL REFERENCES points(id), quantity TEXT NOT NULL, unit TEXT NOT NULL,
    n INTEGER NOT NULL, mean REAL NOT NULL, median REAL NOT NULL, sd REAL, min REAL NOT NULL, max REAL NOT NULL,
    ci_low REAL, ci_high REAL, ci_of TEXT,                    -- Student's t of the `values` or of their `logarithms`, with the scatter of all points
                                                              -- (`pooled`), or corrected for `skewness`; with blocks, of the means of blocks
    ci_needs INTEGER,                                         -- repeats needed, if these scatter too much for an interval
    median_ci_low REAL, median_ci_high REAL,                  -- by order statistics; NULL: fewer than six values
    cv REAL, cv_low REAL, cv_high REAL,                       -- coefficient of variation; NULL cv_high: not bounded
    mild_outliers INTEGER NOT NULL, severe_outliers INTEGER NOT NULL,
    PRIMARY KEY (point, quantity)
) WITHOUT ROWID;

-- One value for each run and quantity, in the order of the plan: quantities.rs fills it as the records of each run come in.
CREATE TABLE quantities (run TEXT NOT NULL REFERENCES runs(id), quantity TEXT NOT NULL, unit TEXT NOT NULL, value REAL NOT NULL);
CREATE VIEW v_quantities AS SELECT run, quantity, unit, value FROM quantities;

-- Each summary with the factors of its point. Warm-ups and runs that did not succeed are never in it.
CREATE VIEW v_point_summary AS
SELECT {p.factors}, p.user, s.*,
       (SELECT count(*) FROM runs r WHERE r.point = p.id AND r.kind = 'measured' AND r.state = 'failed') AS failed
FROM summaries s JOIN points p ON p.id = s.point;

-- What [predict] of the campaign file asks for: sides of the split, and the bounds in percent (a quantity, or `coverage`).
CREATE TABLE prediction_points (point TEXT PRIMARY KEY REFERENCES points(id), role TEXT NOT NULL CHECK (role IN ('train', 'held-out')));
CREATE TABLE prediction_bounds (what TEXT PRIMARY KEY, percent REAL NOT NULL);

-- Predicted, never measured: one row for each quantity of a held-out point, with the mean of its repeats beside it.
CREATE TABLE predictions (
    point TEXT NOT NULL REFERENCES points(id), quantity TEXT NOT NULL, measured REAL NOT NULL,
    predicted REAL, low REAL, high REAL, level REAL,  -- NULL: refused, or no interval
    error_pct REAL, covered INTEGER,
    model TEXT, title TEXT, tier TEXT,  -- NULL: there is no prediction
    training TEXT NOT NULL,   -- JSON list of the training points
    refused TEXT
);

-- The models that were considered: leave-one-out error in percent, or why one was not fitted.
CREATE TABLE prediction_candidates (
    of TEXT NOT NULL, quantity TEXT NOT NULL, model TEXT NOT NULL, title TEXT NOT NULL, tier TEXT NOT NULL,
    chosen INTEGER NOT NULL, leave_one_out_pct REAL, refused TEXT
);
CREATE TABLE prediction_problems (text TEXT NOT NULL);

-- Each prediction with the factors of its point.
CREATE VIEW v_predictions AS
SELECT {p.factors}, p.user, x.*
FROM predictions x JOIN points p ON p.id = x.point;
