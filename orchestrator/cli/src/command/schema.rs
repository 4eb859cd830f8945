//! `cvc schema`

use crate::{args::SchemaOf, exit_status::ExitStatus, failure::Failure, output};
use std::io::Write;

pub fn schema(of: SchemaOf) -> Result<ExitStatus, Failure> {
    let value = match of {
        SchemaOf::Campaign => cvc_core::campaign::schema(),
        SchemaOf::App => cvc_core::campaign::app_schema(),
    };
    let text = serde_json::to_string_pretty(&value).map_err(std::io::Error::from)?;
    writeln!(output::shown(), "{text}")?;
    Ok(ExitStatus::Done)
}
