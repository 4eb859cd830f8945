-- What libraries own of private anonymous memory, as this campaign measured it: the smallest program on the same site, library and mapping has
-- nothing else. Other programs' records divide it by a carried constant; here the difference moves between program and libraries.
INSERT INTO baselines
SELECT p.site, p.mpi, p.mapping, avg(q.bytes), min(q.allocated > 0)
FROM (SELECT run, sum(value) AS bytes, sum(CASE WHEN quantity = 'part_bytes_allocated' THEN value ELSE 0 END) AS allocated
      FROM quantities WHERE quantity IN ('part_bytes_allocated', 'part_bytes_library-memory') GROUP BY run) q
JOIN runs r ON r.id = q.run JOIN points p ON p.id = r.point
WHERE p.baseline AND r.state = 'succeeded' GROUP BY p.site, p.mpi, p.mapping;

CREATE TEMP TABLE moved AS
SELECT l.run AS run,
       -- never more than there is; less than the constant only where the smallest program has less
       min(CASE WHEN b.more THEN max(b.bytes - l.value, 0) ELSE b.bytes - l.value END, coalesce(a.value, 0)) AS bytes
FROM quantities l
JOIN runs r ON r.id = l.run JOIN points p ON p.id = r.point
JOIN baselines b ON b.site = p.site AND b.mpi = p.mpi AND b.mapping = p.mapping
LEFT JOIN quantities a ON a.run = l.run AND a.quantity = 'part_bytes_allocated'
WHERE l.quantity = 'part_bytes_library-memory' AND NOT p.baseline;
CREATE INDEX temp.moved_run ON moved (run);

UPDATE quantities SET value = value + (SELECT bytes FROM moved WHERE moved.run = quantities.run)
WHERE quantity IN ('part_bytes_library-memory', 'zone_bytes_LB_owner') AND run IN (SELECT run FROM moved);
UPDATE quantities SET value = value - (SELECT bytes FROM moved WHERE moved.run = quantities.run)
WHERE quantity IN ('part_bytes_allocated', 'zone_bytes_DTAPP_owner') AND run IN (SELECT run FROM moved);
DROP TABLE temp.moved;
