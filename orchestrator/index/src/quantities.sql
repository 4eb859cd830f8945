-- The quantities of the runs whose records are those behind row ?1, in the order of the plan. What belongs to one checkpoint is added up over kinds of files (totals)
-- or averaged over the images of the ranks (zones, image sizes); the checkpoints of a run are then averaged.
INSERT INTO quantities
WITH of_run AS MATERIALIZED (SELECT * FROM records WHERE rowid > ?1),
per_checkpoint AS (
    SELECT run, name AS quantity, unit, ckpt, sum(value) AS value FROM of_run WHERE name IN ('ckpt_files', 'ckpt_bytes') GROUP BY run, name, ckpt
    UNION ALL
    SELECT run, 'ckpt_files_' || kind, unit, ckpt, sum(value) FROM of_run WHERE name = 'ckpt_files' AND kind IS NOT NULL GROUP BY run, kind, ckpt
    UNION ALL
    SELECT run, 'ckpt_bytes_' || kind, unit, ckpt, sum(value) FROM of_run WHERE name = 'ckpt_bytes' AND kind IS NOT NULL GROUP BY run, kind, ckpt
    UNION ALL
    SELECT run, name || '_per_rank', unit, ckpt, avg(value) FROM of_run
        WHERE name IN ('image_bytes', 'file_bytes', 'area_headers') AND rank IS NOT NULL GROUP BY run, name, ckpt
    UNION ALL
    SELECT run, name || '_' || zone || coalesce('_' || rule, ''), unit, ckpt,
           sum(value) / count(DISTINCT rank) FROM of_run
        WHERE name IN ('zone_bytes', 'zone_range_bytes', 'zone_file_bytes') AND rank IS NOT NULL AND zone IS NOT NULL GROUP BY run, name, zone, rule, ckpt
    UNION ALL
    -- what predictions take as shared memory: by owner, stacks and reserves are a zone of their own
    SELECT run, 'shared_with_stacks_bytes', unit, ckpt, sum(value) / count(DISTINCT rank) FROM of_run
        WHERE name = 'zone_bytes' AND rank IS NOT NULL AND rule = 'owner' AND zone IN ('SHMEM', 'REST') GROUP BY run, ckpt
    UNION ALL
    SELECT run, name || '_' || kind, unit, ckpt, sum(value) / count(DISTINCT rank) FROM of_run
        WHERE name = 'part_bytes' AND rank IS NOT NULL AND kind IS NOT NULL GROUP BY run, name, kind, ckpt
    UNION ALL
    SELECT run, name || '_' || zone || '_' || json_extract(labels, '$.sub'), unit, ckpt, sum(value) / count(DISTINCT rank) FROM of_run
        WHERE name IN ('sub_zone_bytes', 'sub_zone_range_bytes') AND rank IS NOT NULL AND zone IS NOT NULL AND json_extract(labels, '$.sub') IS NOT NULL
        GROUP BY run, name, zone, json_extract(labels, '$.sub'), ckpt
    UNION ALL
    SELECT run, 'cpu_s', unit, ckpt, sum(value) FROM of_run WHERE name IN ('cpu_user_s', 'cpu_system_s') GROUP BY run, ckpt HAVING count(*) = 2
    UNION ALL
    -- the nodes of a run are paid while they take a checkpoint
    SELECT l.run, 'ckpt_cost_usd', 'USD', l.ckpt,
           l.value * json_extract(c.labels, '$.nodes') * json_extract(c.labels, '$.usd_per_node_hour') / 3600
        FROM of_run l JOIN of_run c ON c.run = l.run AND c.name = 'cost_usd' WHERE l.name = 'ckpt_latency_s'
    UNION ALL
    -- of a series: what changed since the checkpoint before, and what each method stores in all
    SELECT run, name, unit, ckpt, value FROM of_run
        WHERE name = 'series_changed_bytes' AND CAST(json_extract(labels, '$.since') AS INTEGER) = CAST(ckpt AS INTEGER) - 1
    UNION ALL
    SELECT run, name || '_' || json_extract(labels, '$.method'), unit, ckpt, value FROM of_run
        WHERE name IN ('series_total_bytes', 'series_restore_files')
    UNION ALL
    -- what else the nodes did counts where it was most
    SELECT run, name, unit, ckpt, max(value) FROM of_run
        WHERE name IN ('steal_share', 'other_cpu_share', 'cpu_pressure_share', 'io_pressure_share', 'memory_pressure_share', 'swapped_bytes',
                       'runnable_before') GROUP BY run, name, ckpt
    UNION ALL
    SELECT run, name, unit, ckpt, avg(value) FROM of_run
        WHERE name NOT IN ('ckpt_files', 'ckpt_bytes', 'image_bytes', 'file_bytes', 'area_headers', 'zone_bytes', 'zone_range_bytes', 'zone_file_bytes',
                           'sub_zone_bytes', 'sub_zone_range_bytes', 'part_bytes', 'steal_share', 'other_cpu_share', 'cpu_pressure_share',
                           'io_pressure_share', 'memory_pressure_share', 'swapped_bytes', 'runnable_before', 'series_at_s', 'series_changed_bytes',
                           'series_zone_changed_bytes', 'series_stored_bytes', 'series_total_bytes', 'series_restore_files',
                           'series_file_bytes', 'series_store_s', 'series_restore_s', 'series_memory_bytes', 'series_part_changed_bytes',
                           'series_restarted_bytes') GROUP BY run, name, ckpt
)
SELECT run, quantity, min(unit) AS unit, avg(value) AS value FROM per_checkpoint WHERE value IS NOT NULL GROUP BY run, quantity
    ORDER BY (SELECT seq FROM runs WHERE id = run), quantity;

