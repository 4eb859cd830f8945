//! Checks the pure formulas against every vector of `data/models/test_vectors.csv`.

use cvc_model::{
    Estimate, application, asynchronous,
    dtapp::{self, PowerLaw},
    io_phase, metadata,
    nas::Problem,
    schedule,
    shmem::{self, Algorithm2},
    stored, zone_time,
};
use cvc_testkit::table::csv;
use serde_json::Value;

const MIB: f64 = 1_048_576.0;
const VECTORS: usize = 89;

/// The inputs of a vector.
struct Inputs(Value);

impl Inputs {
    fn number(&self, name: &str) -> f64 {
        self.0[name]
            .as_f64()
            .unwrap_or_else(|| panic!("no number `{name}` in {}", self.0))
    }

    fn count(&self, name: &str) -> u32 {
        self.0[name]
            .as_u64()
            .and_then(|n| n.try_into().ok())
            .unwrap_or_else(|| panic!("no count `{name}` in {}", self.0))
    }

    fn text(&self, name: &str) -> &str {
        self.0[name]
            .as_str()
            .unwrap_or_else(|| panic!("no text `{name}` in {}", self.0))
    }

    /// Returns a list of lists of numbers.
    fn table(&self, name: &str) -> Vec<Vec<f64>> {
        serde_json::from_value(self.0[name].clone()).expect("a table")
    }
}

/// Computes the formula that a vector names.
fn computed(model: &str, inputs: &Inputs) -> f64 {
    match model {
        "power_law_fit_predict" => {
            assert_eq!(
                (
                    inputs.count("round_a_digits"),
                    inputs.count("round_b_decimals")
                ),
                (5, 3),
                "the published rounding"
            );
            let points: Vec<(u32, f64)> = inputs
                .table("train")
                .iter()
                .map(|row| (row[0] as u32, row[1]))
                .collect();
            PowerLaw::fit(&points)
                .expect("a fit")
                .law
                .rounded()
                .at(inputs.count("predict_p"))
                .expect("a size")
        }
        "algorithm2" => {
            let parameters = Algorithm2 {
                c1: inputs.number("c1"),
                c2: inputs.number("c2"),
                b: inputs.number("b"),
            };
            shmem::algorithm2_mib(inputs.count("p"), parameters).expect("a size")
        }
        "eq_3_11" => shmem::quadratic_mib(inputs.count("p")).expect("a size"),
        "eq_3_10" => dtapp::eq_3_10_mib(inputs.count("p")).expect("a size"),
        "buffer_model" => shmem::buffer_mib(inputs.count("p"), inputs.number("c")).expect("a size"),
        "zone_time" => {
            let of_zone = match inputs.text("zone") {
                "dtapp" => zone_time::dtapp_s,
                "lb" => zone_time::lb_s,
                "shmem" => zone_time::shmem_s,
                other => panic!("no zone `{other}`"),
            };
            of_zone(inputs.number("size_MiB") * MIB).expect("a time")
        }
        "one_checkpoint_time" => {
            let bytes = |name| inputs.number(name) * MIB;
            zone_time::checkpoint_s(bytes("dtapp_MiB"), bytes("lb_MiB"), bytes("shmem_MiB"))
                .expect("a time")
        }
        "checkpoint_count" => of_schedule(inputs).count as f64,
        "checkpoint_interval" => of_schedule(inputs).interval_s.expect("an interval"),
        "total_time" => {
            // the budget of the vectors above gives the number of checkpoints that this vector names
            let schedule =
                schedule::published(inputs.number("app_s"), inputs.number("ckpt_s"), 0.3)
                    .expect("a schedule");
            assert_eq!(schedule.count, u64::from(inputs.count("n")));
            schedule.total_s
        }
        "static_arrays" => {
            let app = format!("npb-{}", inputs.text("benchmark").to_lowercase());
            let problem = Problem::of(&app, inputs.text("class")).expect("a benchmark");
            problem.static_bytes(inputs.count("p")).expect("a size") as f64
        }
        "async_overhead" => {
            let [m, size, bandwidth] =
                ["m", "size_GB", "mem_bw_GBps"].map(|name| inputs.number(name));
            asynchronous::overhead_s(inputs.count("n"), m, size, bandwidth).expect("a time")
        }
        "sync_overhead" => asynchronous::synchronous_s(
            inputs.count("n"),
            inputs.number("size_GB"),
            inputs.number("io_bw_GBps"),
        )
        .expect("a time"),
        "io_phase_error_on_time" => {
            io_phase::error_on_time_pct(inputs.number("estimated_s"), inputs.number("measured_s"))
                .expect("an error")
        }
        "io_phase_error_on_bandwidth" => io_phase::error_on_bandwidth_pct(
            inputs.number("estimated_s"),
            inputs.number("measured_s"),
        )
        .expect("an error"),
        "io_phase_bandwidth" => {
            let weight = io_phase::weight(
                inputs.count("np"),
                inputs.count("rep") * inputs.count("phases"),
                inputs.number("rs_MB"),
            );
            io_phase::bandwidth(weight.expect("a weight"), inputs.number("time_s"))
                .expect("a bandwidth")
        }
        "pfsd_metadata_ops" => {
            metadata::delegation_operations(inputs.count("servers"), inputs.count("clients"))
                .expect("a count") as f64
        }
        "cloud_aux_MiB" => stored::aux_cloud_mib(inputs.count("instances")).expect("a size"),
        "minighost_data_MiB" => {
            let grid = inputs.count("grid");
            application::own_checkpoint_mib(
                inputs.count("p"),
                grid,
                grid,
                grid,
                inputs.count("variables"),
                inputs.count("word"),
            )
            .expect("a size")
        }
        other => panic!("this test does not know the model `{other}`"),
    }
}

fn of_schedule(inputs: &Inputs) -> schedule::Schedule {
    schedule::published(
        inputs.number("app_s"),
        inputs.number("ckpt_s"),
        inputs.number("overhead"),
    )
    .expect("a schedule")
}

/// Returns the count and MiB of the groups of files, in the order of the vector: plain files, aggregators, the lone process.
fn groups(inputs: &Inputs) -> Vec<(f64, f64)> {
    let mapping: Vec<String> = inputs
        .table("mapping")
        .iter()
        .map(|g| format!("{}Nx{}P", g[0], g[1]))
        .collect();
    let mapping = mapping.join("+").parse().expect("a mapping");
    let (base, c1) = (inputs.number("base_MiB"), inputs.number("c1"));
    let plain = |load| {
        let shmem = shmem::algorithm2_mib(
            load,
            Algorithm2 {
                c1,
                ..Algorithm2::default()
            },
        )?;
        Ok(Estimate::exact(base + shmem))
    };
    let surplus = Estimate::exact(inputs.number("agg_MiB"));
    let files =
        stored::files(&mapping, stored::Aggregators::OnePerNode, surplus, plain).expect("files");
    files
        .iter()
        .map(|f| (f64::from(f.count), f.size.value))
        .collect()
}

#[test]
fn every_vector_is_met() {
    let table = csv("orchestrator/model/tests/data/models/test_vectors.csv");
    for row in &table {
        let (id, model) = (row.text("id"), row.text("model"));
        let inputs = Inputs(serde_json::from_str(row.text("inputs_json")).expect("JSON"));
        let tolerance = row.number("abs_tolerance");
        if model == "algorithm1" {
            let expected: Vec<(f64, f64)> =
                serde_json::from_str(row.text("expected")).expect("groups");
            let ours = groups(&inputs);
            assert_eq!(ours.len(), expected.len(), "{id}");
            for (ours, expected) in ours.iter().zip(&expected) {
                assert!(
                    ours.0 == expected.0 && (ours.1 - expected.1).abs() <= tolerance,
                    "{id}: {ours:?} against {expected:?}"
                );
            }
            continue;
        }
        let (ours, expected) = (computed(model, &inputs), row.number("expected"));
        assert!(
            (ours - expected).abs() <= tolerance,
            "{id} {model}: {ours} against {expected} ± {tolerance}"
        );
    }
    assert_eq!(table.len(), VECTORS);
}
