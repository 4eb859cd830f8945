//! `cvc import`

use crate::{
    args::ImportArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output::{note, tell},
    text::shown,
};
use cvc_core::units::counted;
use cvc_import::{ImportError, read, write_campaign};

pub fn import(args: &ImportArgs) -> Result<ExitStatus, Failure> {
    let file = read(&args.file).map_err(failure)?;
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
    for remark in &file.remarks {
        note(remark);
    }
    tell(format_args!(
        "{}: {} of {}",
        shown(&imported.dir),
        counted(imported.runs, "run"),
        counted(imported.points, "point")
    ));
    Ok(ExitStatus::Done)
}

fn failure(error: ImportError) -> Failure {
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
