//! `cvc export`

use crate::command::records::warn_of_index;
use crate::{
    args::ExportArgs, exit_status::ExitStatus, failure::Failure, output::emit, text::shown,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    store::CampaignDir,
    units::{counted, size},
};
use cvc_export::{
    Artifact, ArtifactOptions, Description, ExportError, Exported, export_artifact,
    export_ro_crate, export_tables,
};
use cvc_index::Index;
use cvc_session::campaigns::campaign_dir;

pub fn export(args: &ExportArgs) -> Result<ExitStatus, Failure> {
    if let Some(to) = &args.parquet
        && !cfg!(feature = "parquet")
    {
        return Err(without_parquet(to));
    }
    let dir = campaign_dir(
        &args.campaign,
        args.which.variant.as_deref(),
        &args.place.campaigns,
    )?;
    // the index is temporary, because the campaign may be running
    let index = Index::in_temporary_file(dir.root())?;
    let unsound = warn_of_index(dir.root(), &index)?;
    if !unsound.is_empty() && args.artifact.is_some() && !args.damaged {
        return Err(Failure::Other {
            status: ExitStatus::Store,
            message: "records are missing, damaged or changed: no artefact written".into(),
            hint: Some("add --damaged to export them regardless".into()),
        });
    }
    if let Some(to) = &args.csv {
        report_export(&export_tables(&index, to, args.replace).map_err(failure)?);
    }
    if let Some(to) = &args.parquet {
        write_parquet(&index, to, args.replace)?;
    }
    if let Some(to) = &args.artifact {
        let report = report(args, &dir);
        let options = ArtifactOptions {
            report: report.as_deref(),
            keep_names: args.keep_names,
            replace: args.replace,
        };
        report_artifact(
            &export_artifact(&dir, &index, options, to).map_err(failure)?,
            report.as_deref(),
        );
    }
    if let Some(to) = &args.ro_crate {
        let description = Description {
            agent: args.agent.as_deref(),
            licence: args.license.as_deref(),
        };
        report_export(
            &export_ro_crate(&dir, &index, description, to, args.replace).map_err(failure)?,
        );
    }
    Ok(ExitStatus::Done)
}

#[cfg(feature = "parquet")]
fn write_parquet(index: &Index, to: &Utf8Path, replace: bool) -> Result<(), Failure> {
    report_export(&cvc_export::export_parquet(index, to, replace).map_err(failure)?);
    Ok(())
}

/// Stands in for the export in builds without Parquet. It is never called, because `export` refuses the option before.
#[cfg(not(feature = "parquet"))]
fn write_parquet(_: &Index, to: &Utf8Path, _: bool) -> Result<(), Failure> {
    Err(without_parquet(to))
}

fn without_parquet(to: &Utf8Path) -> Failure {
    Failure::Other {
        status: ExitStatus::Usage,
        message: format!("--parquet {to}: this cvc was built without Parquet"),
        hint: Some(
            "use --csv, or build cvc with `cargo build --release --locked --package cvc`".into(),
        ),
    }
}

fn report_export(exported: &Exported) {
    let files = counted(exported.files, "file");
    emit(format_args!("{}: {files}", shown(&exported.path)));
}

/// Returns the directory of the report for an artefact: the given one, otherwise the one that `cvc report` writes.
fn report(args: &ExportArgs, dir: &CampaignDir) -> Option<Utf8PathBuf> {
    args.report.clone().or_else(|| {
        let usual = Utf8Path::new("reports").join(dir.root().file_name()?);
        usual.is_dir().then_some(usual)
    })
}

fn report_artifact(artifact: &Artifact, report: Option<&Utf8Path>) {
    let report = match report {
        Some(dir) => format!("with the report in {}", shown(dir)),
        None => "without a report".to_owned(),
    };
    emit(format_args!(
        "{}: {}, {} of {}, {report}",
        shown(&artifact.path),
        size(artifact.bytes as f64),
        counted(artifact.files, "file"),
        size(artifact.payload_bytes as f64),
    ));
}

pub(super) fn failure(error: ExportError) -> Failure {
    match error {
        ExportError::Store(error) => error.into(),
        ExportError::Analysis(error) => error.into(),
        other => Failure::Other {
            status: ExitStatus::Usage,
            hint: other.hint(),
            message: other.to_string(),
        },
    }
}
