//! `cvc demo`: runs a small campaign as `./quickstart` does, but needs only the installed program and not the repository.

use super::{predict::number, run};
use crate::{
    args::{DemoArgs, RunArgs, Where, Which},
    exit_status::ExitStatus,
    failure::Failure,
    machine::runtime,
    output::{self, emit, note},
};
use camino::Utf8Path;
use cvc_core::{
    paths::{make_absolute, on_path},
    quantity::Quantity,
    store::{StoreError, write_output},
};
use cvc_engine::{kernels::mpicc, mpi};
use cvc_index::{Index, PredictionRow};
use cvc_prediction::holdout::HoldoutResult;
use cvc_session::campaigns::load;
use cvc_show::{Blocks, Table, or_dash};

const FILE: &str = "quickstart.toml";
const CAMPAIGN: &str = include_str!("../../../../experiments/quickstart.toml");
/// Directory of campaigns, below the directory of the demo.
const CAMPAIGNS: &str = "campaigns";

pub fn demo(args: &DemoArgs) -> Result<ExitStatus, Failure> {
    let dir = make_absolute(args.dir.clone());
    enter(&dir)?;
    let campaign = runtime()?.block_on(require_mpi())?;
    note(format_args!(
        "in {}, this is the same as: cvc run {FILE}",
        args.dir
    ));
    let place = Where {
        campaigns: CAMPAIGNS.into(),
    };
    let status = run::run(&RunArgs::for_file(
        FILE.into(),
        Which { variant: None },
        place,
    ))?;
    if status == ExitStatus::Interrupted {
        return Ok(status);
    }
    let index = Index::open(&Utf8Path::new(CAMPAIGNS).join(&campaign))?;
    if let Some(result) = HoldoutResult::read(&index)? {
        output::emit_blocks(&forecasts(&result));
    }
    let report = Utf8Path::new("reports").join(&campaign).join("report.html");
    emit(format_args!(
        "Open {} in a browser. Next: `cvc try -- COMMAND` for your own program, `cvc init` for a campaign.",
        dir.join(report)
    ));
    Ok(status)
}

/// Writes the campaign file into the directory and makes it the current one, so that paths in messages are valid for `cvc run` there.
fn enter(dir: &Utf8Path) -> Result<(), Failure> {
    let file = dir.join(FILE);
    std::fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
    match std::fs::read(&file) {
        Ok(content) if content == CAMPAIGN.as_bytes() => {}
        Ok(_) => {
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: format!("{file} is not the demo's campaign file"),
                hint: Some(format!(
                    "run it with `cd {dir} && cvc run {FILE}`, or give the demo another directory: `cvc demo DIR`"
                )),
            });
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            write_output(&file, CAMPAIGN.as_bytes())?;
        }
        Err(error) => return Err(StoreError::io("read", &file)(error).into()),
    }
    std::env::set_current_dir(dir).map_err(StoreError::io("enter", dir))?;
    Ok(())
}

/// Returns an error if none of the campaign's MPI libraries can compile and start the kernels here. Otherwise returns the campaign's name.
async fn require_mpi() -> Result<String, Failure> {
    let spec = load(FILE.into(), None)?;
    let mut missing = Vec::new();
    let mut is_found = false;
    for (name, library) in spec.sites.values().flat_map(|site| &site.mpi) {
        let found = mpi::find(name, library).await;
        match found.and_then(|found| mpicc(&found)) {
            Ok(_) => is_found = true,
            Err(problem) => missing.push(problem),
        }
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let tools: Vec<&str> = ["cc", "make"]
        .into_iter()
        .filter(|tool| on_path(&[tool], &path).is_none())
        .collect();
    if is_found && tools.is_empty() {
        return Ok(spec.name);
    }
    let mut problems: Vec<String> = tools
        .iter()
        .map(|tool| format!("{tool} is not installed"))
        .collect();
    if !is_found {
        problems.extend(missing.into_iter().map(|problem| problem.what));
    }
    Err(Failure::Other {
        status: ExitStatus::Installation,
        message: format!(
            "the demo compiles and runs an MPI program: {}",
            problems.join("; ")
        ),
        hint: Some(
            "Debian, Ubuntu: apt-get install mpich libmpich-dev gcc libc6-dev make; or openmpi-bin libopenmpi-dev instead of MPICH, or both".into(),
        ),
    })
}

/// Returns the predictions of held-out points next to the measured values.
fn forecasts(result: &HoldoutResult) -> Blocks {
    let level = |row: &PredictionRow, factor: &str| {
        let point = result.held_out.get(&row.point);
        or_dash(point.and_then(|point| point.factor(factor)), |level| level)
    };
    let estimate = |row: &PredictionRow| row.answer.as_ref().ok().copied();
    let table = Table::of(
        // stored bytes are left out, because they equal the program's own checkpoint
        result
            .judged
            .iter()
            .filter(|row| row.answer.is_ok() && row.quantity != Quantity::Stored),
        &[
            ("mpi", &|row| level(row, "mpi")),
            ("mapping", &|row| level(row, "mapping")),
            ("aggregators", &|row| level(row, "aggregators")),
            ("quantity", &|row| {
                format!("{}, {}", row.quantity.title(), row.quantity.unit())
            }),
            ("predicted", &|row| {
                or_dash(estimate(row), |e| number(e.value))
            }),
            ("95 % interval", &|row| {
                or_dash(estimate(row).and_then(|e| e.interval), |i| {
                    format!("{} … {}", number(i.low), number(i.high))
                })
            }),
            ("measured", &|row| number(row.measured)),
        ],
    );
    let mut answer = Blocks::default();
    answer.heading("Predicted from the smaller runs, and measured:");
    answer.gap();
    answer.table(table);
    answer.gap();
    answer
}
