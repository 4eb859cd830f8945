//! `cvc export`

use crate::{
    args::ExportArgs, exit_status::ExitStatus, failure::Failure, output::tell, text::shown,
};
use cvc_core::units::counted;
use cvc_export::{Description, ExportError, Exported, export_ro_crate, export_tables};
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
    if let Some(to) = &args.csv {
        told(&export_tables(&index, to, args.replace).map_err(failure)?);
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
