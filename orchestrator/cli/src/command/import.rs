//! `cvc import`

use crate::{
    args::ImportArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output::{emit, note},
    text::shown,
};
use cvc_core::{record::names, units::counted};
use cvc_import::{Decimal, ImportError, ImportOptions, ImportedRun, read, write_campaign};
use cvc_session::campaigns::launching_file;

pub fn import(args: &ImportArgs) -> Result<ExitStatus, Failure> {
    let options = ImportOptions {
        missing: args.missing.clone(),
        decimal: args.decimal.as_deref().and_then(Decimal::named),
        factors: args.factors.clone(),
    };
    let file = read(&args.file, &options).map_err(failure)?;
    for remark in &file.remarks {
        note(remark);
    }
    if !file.left_out.is_empty() && !args.skip {
        return Err(Failure::Other {
            status: ExitStatus::RowsLeftOut,
            message: format!(
                "{} has rows that cannot be imported: {}",
                args.file,
                file.left_out.join("; ")
            ),
            hint: Some("correct them, or skip them with --skip".into()),
        });
    }
    for rows in &file.left_out {
        note(format_args!("left out: {rows}"));
    }
    let name = args
        .name
        .clone()
        .or(file.name)
        .or_else(|| args.file.file_stem().map(str::to_owned))
        .unwrap_or_default();
    let imported = write_campaign(
        &args.place.campaigns,
        &name,
        &args.file,
        &file.runs,
        args.replace,
    )
    .map_err(failure)?;
    // in a clone of cvc, its campaigns are in `experiments`
    if let Some(file) = launching_file(&name, &[".".into(), "experiments".into()]) {
        let file = file.strip_prefix(".").unwrap_or(&file);
        note(format_args!(
            "{file} has the same name and launches instances: `cvc run {file}` would add runs to this import; --as gives it another name"
        ));
    }
    let has_wall_time =
        |run: &ImportedRun| run.values.iter().any(|value| value.name == names::WALL_S);
    if !file.runs.iter().any(has_wall_time) {
        note("no run has a wall time (`wall_s`), which `cvc advise` needs");
    }
    emit(format_args!(
        "{}: {} of {}",
        shown(&imported.dir),
        counted(imported.runs, "run"),
        counted(imported.points, "point")
    ));
    Ok(ExitStatus::Done)
}

pub(super) fn failure(error: ImportError) -> Failure {
    match error {
        ImportError::Source(error) => Failure::Spec(error.into()),
        ImportError::Store(error) => error.into(),
        other => Failure::Other {
            status: ExitStatus::Usage,
            hint: other.hint(),
            message: other.to_string(),
        },
    }
}
