//! `cvc schema`

use crate::{args::SchemaOf, exit_status::ExitStatus, failure::Failure, output};
use std::io::Write;

/// Written by hand; a test holds what is printed against it.
const PREDICT: &str = include_str!("../../../../experiments/schema/predict.schema.json");

pub fn schema(of: SchemaOf) -> Result<ExitStatus, Failure> {
    let generated = match of {
        SchemaOf::Campaign => cvc_core::campaign::schema(),
        SchemaOf::App => cvc_core::campaign::app_schema(),
        SchemaOf::Predict => {
            output::shown().write_all(PREDICT.as_bytes())?;
            return Ok(ExitStatus::Done);
        }
    };
    let text = serde_json::to_string_pretty(&generated).map_err(std::io::Error::from)?;
    writeln!(output::shown_as(true), "{text}")?;
    Ok(ExitStatus::Done)
}
