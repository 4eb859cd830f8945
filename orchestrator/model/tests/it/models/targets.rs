//! Recomputes the figures by which the models are judged, from the committed tables.

use crate::models::data::{
    coverage, dtapp, latencies, left_out, mean_and_max, on_one_node, pick, setting, shmem, summary,
    surplus_model, surpluses, trained,
};
use cvc_model::{
    Estimate, MpiKind, Sample,
    dtapp::{self as data_zone},
    error_pct, latency, library, shmem as shared_memory, split,
};
use cvc_testkit::table::{Row, printed};

/// A row of Tables 4.1 to 4.3: the samples of its zones, and the printed sizes of its file.
pub struct FileRow {
    pub trains: bool,
    pub dtapp: Sample,
    pub lb: Sample,
    pub shmem: Sample,
    /// Whether the row of a mapping over two nodes has the value of one node.
    pub shmem_misplaced: bool,
    /// Measured size, as printed.
    pub file_mib: f64,
    /// Estimated size, as printed.
    pub printed_mib: Option<f64>,
}

/// Returns the rows of one of the three tables.
pub fn file_rows(table: &str) -> Vec<FileRow> {
    let of = |row: &Row| {
        let (benchmark, class, at) = if table == "t4-3" {
            let (total, p) = (row.count("processes"), row.count("processes_per_node"));
            // the row gives one group; the mapping needs all groups, and uneven mappings have two
            let nodes = row.count("nodes_in_group");
            let mapping = match total - nodes * p {
                0 => format!("{nodes}Nx{p}P"),
                rest => format!("{nodes}Nx{p}P+1Nx{rest}P"),
            };
            (
                "BT",
                "D",
                setting(
                    "BT",
                    "D",
                    mapping.parse().expect("a mapping"),
                    p,
                    MpiKind::Nemesis,
                ),
            )
        } else {
            let (benchmark, class) = row
                .text("app")
                .split_once('.')
                .expect("a benchmark and its class");
            (
                benchmark,
                class,
                on_one_node(
                    benchmark,
                    class,
                    row.count("row_processes"),
                    MpiKind::Nemesis,
                ),
            )
        };
        let sample = |zone: &str| Sample {
            id: match zone {
                "shmem" => format!(
                    "{benchmark}.{class}.{} on a node with {}",
                    at.processes(),
                    at.per_node
                ),
                _ => format!("{benchmark}.{class}.{}", at.processes()),
            },
            at: at.clone(),
            value: row.number(&format!("meas_{zone}_MiB")),
        };
        FileRow {
            trains: row.maybe("est_ckpt_MiB").is_none(),
            dtapp: sample("dtapp"),
            lb: sample("lb"),
            shmem: sample("shmem"),
            shmem_misplaced: table == "t4-3" && row.count("processes") == 36,
            file_mib: row.number("meas_ckpt_MiB"),
            printed_mib: row.maybe("est_ckpt_MiB"),
        }
    };
    printed(table).iter().map(of).collect()
}

/// Predicts the held-out rows of a table from its training rows alone: the row, its data zone and its file.
pub fn predicted_files(
    table: &str,
    dtapp_model: &str,
    shmem_model: &str,
) -> Vec<(FileRow, Estimate, Estimate)> {
    let rows = file_rows(table);
    let zone = |samples: Vec<(bool, Sample)>, model: &dyn cvc_model::Model| -> Vec<Estimate> {
        let ids: Vec<String> = samples
            .iter()
            .filter(|(trains, _)| *trains)
            .map(|(_, s)| s.id.clone())
            .collect();
        // the two groups of an uneven mapping are one run: values that do not depend on the node count once
        let mut seen = std::collections::HashSet::new();
        let all = samples
            .into_iter()
            .filter(|(trains, s)| !trains || seen.insert((s.id.clone(), s.value.to_bits())))
            .map(|(_, s)| s);
        split(
            all,
            |s| ids.contains(&s.id),
            |training, held_out| {
                let judged = training.fit(model).expect("a fit").judge(&held_out);
                judged
                    .into_iter()
                    .map(|j| j.predicted.expect("a prediction"))
                    .collect()
            },
        )
    };
    let mut of_data = data_zone::models();
    of_data.push(data_zone::published_power_law());
    let of_dtapp = zone(
        rows.iter().map(|r| (r.trains, r.dtapp.clone())).collect(),
        &*pick(of_data, dtapp_model),
    );
    let of_lb = zone(
        rows.iter().map(|r| (r.trains, r.lb.clone())).collect(),
        &*pick(library::models(), "lb-constant"),
    );
    let usable = rows.iter().filter(|r| !r.shmem_misplaced);
    let of_shmem = zone(
        usable.map(|r| (r.trains, r.shmem.clone())).collect(),
        &*pick(shared_memory::models(), shmem_model),
    );
    let held_out: Vec<FileRow> = rows.into_iter().filter(|r| !r.trains).collect();
    assert_eq!(
        (held_out.len(), held_out.len(), held_out.len()),
        (of_dtapp.len(), of_lb.len(), of_shmem.len())
    );
    let sums = of_dtapp
        .into_iter()
        .zip(of_lb)
        .zip(of_shmem)
        .map(|((d, l), s)| (d, d.plus(l).plus(s)));
    held_out
        .into_iter()
        .zip(sums)
        .map(|(row, (dtapp, file))| (row, dtapp, file))
        .collect()
}

/// Predicts the 15 held-out rows of the three tables.
pub fn fifteen(dtapp_model: &str, shmem_model: &str) -> Vec<(FileRow, Estimate, Estimate)> {
    let all: Vec<_> = ["t4-1", "t4-2", "t4-3"]
        .into_iter()
        .flat_map(|t| predicted_files(t, dtapp_model, shmem_model))
        .collect();
    assert_eq!(all.len(), 15);
    all
}

/// Returns the errors of whole files and of data zones.
pub fn errors(rows: &[(FileRow, Estimate, Estimate)]) -> (Vec<f64>, Vec<f64>) {
    let pct = |e: &Estimate, measured: f64| error_pct(e.value, measured).expect("a size");
    let files = rows
        .iter()
        .map(|(row, _, file)| pct(file, row.file_mib))
        .collect();
    (
        files,
        rows.iter()
            .map(|(row, dtapp, _)| pct(dtapp, row.dtapp.value))
            .collect(),
    )
}

#[test]
fn whole_files_and_data_zones_of_the_fifteen_rows() {
    for (shmem_model, bound) in [("shmem-buffers", 0.065), ("shmem-buffers-copies", 0.065)] {
        let rows = fifteen("dtapp-halo", shmem_model);
        let (files, zones) = errors(&rows);
        let ((mean, worst), (zone_mean, zone_worst)) = (summary(&files), summary(&zones));
        let covered = rows
            .iter()
            .filter(|(row, _, file)| file.covers(row.file_mib) == Some(true))
            .count();
        let covered_zones = rows
            .iter()
            .filter(|(row, dtapp, _)| dtapp.covers(row.dtapp.value) == Some(true))
            .count();
        println!(
            "halo + {shmem_model}: files {mean:.3} % (max {worst:.3}), data zones {zone_mean:.3} % (max {zone_worst:.3}); \
             intervals cover {covered}/15 files, {covered_zones}/15 data zones"
        );
        assert!(mean <= bound, "{mean}");
        assert!(zone_mean <= 0.3, "{zone_mean}");
        assert!(
            covered >= 14 && covered_zones >= 14,
            "{covered} files, {covered_zones} zones"
        );
    }
}

#[test]
fn shared_memory_of_independent_cells() {
    let cells = shmem();
    let known = [4, 25, 36];
    let trains = |c: &crate::models::data::Shmem| c.app == "BT" && known.contains(&c.p);
    let judges = |c: &crate::models::data::Shmem| {
        ["BT", "SP"].contains(&c.app.as_str()) && !known.contains(&c.p) && !c.suspect
    };
    let (training, judged): (Vec<_>, Vec<_>) = (
        cells.iter().filter(|c| trains(c)).collect(),
        cells.iter().filter(|c| judges(c)).collect(),
    );
    assert_eq!(judged.len(), 16, "independent cells");
    let ids: Vec<String> = training.iter().map(|c| c.sample.id.clone()).collect();
    let samples: Vec<Sample> = training
        .iter()
        .chain(&judged)
        .map(|c| c.sample.clone())
        .collect();
    let judged = trained(
        &samples,
        &*pick(shared_memory::models(), "shmem-buffers"),
        |s| ids.contains(&s.id),
        |s| !ids.contains(&s.id),
    );
    let ((mean, worst), (covered, of)) = (mean_and_max(&judged), coverage(&judged));
    println!(
        "shared memory: {mean:.4} % (max {worst:.3}) on {of} cells, intervals cover {covered}"
    );
    // The aim is 0.16, which the formula reaches to two decimals: no constant gets below 0.162 on these cells, among which runs of the same
    // configuration differ by 0.35 %.
    assert!(mean <= 0.165, "{mean}");
    assert!(10 * covered >= 9 * of && of == 16, "{covered} of {of}");
}

#[test]
fn latency_from_one_class_to_the_other() {
    let runs = latencies();
    let model = latency::bandwidth();
    for (from, to, bound) in [("C", "D", 3.5), ("D", "C", 3.5)] {
        let of = |class: &str| {
            runs.iter()
                .filter(|r| !r.open_mpi && r.class == class)
                .collect::<Vec<_>>()
        };
        let ids: Vec<String> = of(from).iter().map(|r| r.sample.id.clone()).collect();
        let samples: Vec<Sample> = runs
            .iter()
            .filter(|r| !r.open_mpi)
            .map(|r| r.sample.clone())
            .collect();
        let judged = trained(
            &samples,
            &*model,
            |s| ids.contains(&s.id),
            |s| !ids.contains(&s.id),
        );
        let mut errors = Vec::new();
        let mut covered = 0;
        for (judged, run) in judged.iter().zip(of(to)) {
            assert_eq!(judged.sample.id, run.sample.id);
            let seconds = judged.predicted.clone().expect("a time");
            errors.push(error_pct(seconds.value, run.seconds).expect("a time"));
            covered += usize::from(seconds.covers(run.seconds) == Some(true));
        }
        let (mean, worst) = summary(&errors);
        println!(
            "latency, class {from} -> {to}: {mean:.3} % (max {worst:.3}), intervals cover {covered}/5"
        );
        assert!(mean <= bound, "{mean}");
        assert!(covered == 5, "{covered} of 5");
    }
}

#[test]
fn surplus_of_aggregators_left_out_in_turn() {
    let samples = surpluses();
    assert_eq!(samples.len(), 8);
    let judged = left_out(&samples, &*surplus_model("surplus-buffer-growth"));
    let ((mean, worst), (covered, of)) = (mean_and_max(&judged), coverage(&judged));
    println!("aggregator surplus: {mean:.3} % (max {worst:.3}), intervals cover {covered} of {of}");
    for j in &judged {
        println!(
            "  {}: {:.2} MiB, predicted {:.2}",
            j.sample.id,
            j.sample.value,
            j.predicted.as_ref().expect("a surplus").value
        );
    }
    assert!(mean <= 4.5, "{mean}");
    assert!(10 * covered >= 9 * of, "{covered} of {of}");
}

/// Intervals of models of the data zone that were fitted on three of the thesis's runs, at all other runs of the same program.
#[test]
fn intervals_of_data_zones_cover_the_held_out_runs() {
    let samples = dtapp();
    let (mut inside, mut all) = (0, 0);
    for (benchmark, class, runs) in crate::models::scores::SETS {
        let of = |s: &Sample| {
            s.at.app == format!("npb-{}", benchmark.to_lowercase()) && s.at.class == *class
        };
        for model in data_zone::models() {
            if ![
                "dtapp-arrays",
                "dtapp-halo",
                "dtapp-power-law",
                "dtapp-volume-faces",
                "dtapp-stored-arrays",
            ]
            .contains(&model.info().id)
            {
                continue;
            }
            let trains = |s: &Sample| of(s) && runs.contains(&s.at.processes());
            let judged = trained(&samples, &*model, trains, of);
            let (covered, with) = coverage(&judged);
            println!(
                "{benchmark}.{class} {}: {covered} of {with}, {:.3} %",
                model.info().id,
                mean_and_max(&judged).0
            );
            inside += covered;
            all += with;
        }
    }
    println!("data zones: intervals cover {inside} of {all}");
    assert!(10 * inside >= 9 * all && all == 145, "{inside} of {all}");
}
