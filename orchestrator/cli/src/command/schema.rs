//! `cvc schema`

use crate::{args::SchemaOf, exit_status::ExitStatus, failure::Failure, output};
use std::io::Write;

/// Written by hand; tests hold what is printed against them.
const PREDICT: &str = include_str!("../../../../experiments/schema/predict.schema.json");
const DELTA: &str = include_str!("../../../../experiments/schema/delta.schema.json");

pub fn schema(of: SchemaOf) -> Result<ExitStatus, Failure> {
    let generated = match of {
        SchemaOf::Campaign => cvc_core::campaign::schema(),
        SchemaOf::App => cvc_core::campaign::app_schema(),
        SchemaOf::Predict | SchemaOf::Delta => {
            let written = if matches!(of, SchemaOf::Delta) {
                DELTA
            } else {
                PREDICT
            };
            output::shown().write_all(written.as_bytes())?;
            return Ok(ExitStatus::Done);
        }
    };
    output::print_json(&generated)?;
    Ok(ExitStatus::Done)
}
