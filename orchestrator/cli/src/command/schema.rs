//! `cvc schema`

use crate::{args::SchemaOf, exit_status::ExitStatus, failure::Failure, output};
use std::io::Write;

/// Includes the schema of a command's output. Schemas are written by hand, and tests validate the output against them.
macro_rules! printed {
    ($name:literal) => {
        include_str!(concat!(
            "../../../../experiments/schema/",
            $name,
            ".schema.json"
        ))
    };
}

pub fn schema(of: SchemaOf) -> Result<ExitStatus, Failure> {
    let text = match of {
        SchemaOf::Campaign => {
            output::print_json(&cvc_core::campaign::schema())?;
            return Ok(ExitStatus::Done);
        }
        SchemaOf::App => {
            output::print_json(&cvc_core::campaign::app_schema())?;
            return Ok(ExitStatus::Done);
        }
        SchemaOf::AaTest => printed!("aa-test"),
        SchemaOf::Advise => printed!("advise"),
        SchemaOf::Bandwidth => printed!("bandwidth"),
        SchemaOf::Compare => printed!("compare"),
        SchemaOf::Delta => printed!("delta"),
        SchemaOf::Doctor => printed!("doctor"),
        SchemaOf::Estimate => printed!("estimate"),
        SchemaOf::Explain => printed!("explain"),
        SchemaOf::Fsck => printed!("fsck"),
        SchemaOf::Image => printed!("image"),
        SchemaOf::Jobs => printed!("jobs"),
        SchemaOf::Metadata => printed!("metadata"),
        SchemaOf::Phases => printed!("phases"),
        SchemaOf::Plan => printed!("plan"),
        SchemaOf::Predict => printed!("predict"),
        SchemaOf::Reproduce => printed!("reproduce"),
        SchemaOf::Status => printed!("status"),
        SchemaOf::Strategy => printed!("strategy"),
        SchemaOf::Trace => printed!("trace"),
        SchemaOf::Try => printed!("try"),
    };
    output::shown().write_all(text.as_bytes())?;
    Ok(ExitStatus::Done)
}
