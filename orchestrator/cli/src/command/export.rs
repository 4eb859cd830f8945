//! `cvc export`

use crate::command::records::warn_of_index;
use crate::{
    args::ExportArgs, exit_status::ExitStatus, failure::Failure, output::tell, text::shown,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{store::CampaignDir, units::counted};
use cvc_export::{
    Artifact, ArtifactOptions, Description, ExportError, Exported, export_artifact, export_parquet,
    export_ro_crate, export_tables,
};
use cvc_index::Index;
use cvc_session::campaigns::campaign_dir;

pub fn export(args: &ExportArgs) -> Result<ExitStatus, Failure> {
    let dir = campaign_dir(
        &args.campaign,
        args.which.variant.as_deref(),
        &args.place.campaigns,
    )?;
    // only reads: the campaign may be running
    let index = Index::apart(dir.root())?;
    if warn_of_index(dir.root(), &index)? && args.artifact.is_some() && !args.damaged {
        return Err(Failure::Other {
            status: ExitStatus::Store,
            message: "no artifact of records that are not as they were written".into(),
            hint: Some("--damaged exports them all the same".into()),
        });
    }
    if let Some(to) = &args.csv {
        told(&export_tables(&index, to, args.replace).map_err(failure)?);
    }
    if let Some(to) = &args.parquet {
        told(&export_parquet(&index, to, args.replace).map_err(failure)?);
    }
    if let Some(to) = &args.artifact {
        let report = report(args, &dir);
        let options = ArtifactOptions {
            report: report.as_deref(),
            keep_names: args.keep_names,
            replace: args.replace,
        };
        told_artifact(
            &export_artifact(&dir, &index, options, to).map_err(failure)?,
            report.as_deref(),
        );
    }
    if let Some(to) = &args.ro_crate {
        let description = Description {
            agent: args.agent.as_deref(),
            licence: args.license.as_deref(),
        };
        told(&export_ro_crate(&dir, &index, description, to, args.replace).map_err(failure)?);
    }
    Ok(ExitStatus::Done)
}

fn told(exported: &Exported) {
    let files = counted(exported.files, "file");
    tell(format_args!("{}: {files}", shown(&exported.path)));
}

/// The report that goes into an artefact: the one that was named, or the one that `cvc report` writes.
fn report(args: &ExportArgs, dir: &CampaignDir) -> Option<Utf8PathBuf> {
    args.report.clone().or_else(|| {
        let usual = Utf8Path::new("reports").join(dir.root().file_name()?);
        usual.is_dir().then_some(usual)
    })
}

fn told_artifact(artifact: &Artifact, report: Option<&Utf8Path>) {
    let report = match report {
        Some(dir) => format!("with the report in {}", shown(dir)),
        None => "without a report".to_owned(),
    };
    tell(format_args!(
        "{}: {}, {} of {}, {report}",
        shown(&artifact.path),
        size(artifact.bytes),
        counted(artifact.files, "file"),
        size(artifact.payload_bytes),
    ));
}

fn size(bytes: u64) -> String {
    let kib = bytes as f64 / 1024.0;
    if kib < 1024.0 {
        format!("{kib:.1} KiB")
    } else {
        format!("{:.1} MiB", kib / 1024.0)
    }
}

fn failure(error: ExportError) -> Failure {
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
