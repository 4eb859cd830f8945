//! Writes the page of a trace to look at: `cargo run -p cvc-show --example trace_page -- PAGE FILE...`.

use cvc_show::{PlotSink, trace_page};
use cvc_trace::All;
use cvc_trace::document::{TraceHead, document};
use cvc_trace::{
    findings::{RequestedSettings, Thresholds, facts_of_profile, findings},
    profile::Profiler,
    read_trace,
};
use std::{error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [to, inputs @ ..] = &args[..] else {
        return Err("arguments are needed: PAGE FILE...".into());
    };
    let (mut profiler, mut plots) = (Profiler::default(), PlotSink::default());
    let origin = read_trace(inputs, &mut All(vec![&mut profiler, &mut plots]), None)?;
    let profile = profiler.finish();
    let found = findings(
        &facts_of_profile(&profile),
        RequestedSettings::default(),
        &Thresholds::default(),
    );
    let head = TraceHead {
        tracer: origin.kind.word().to_owned(),
        inputs: inputs.iter().map(|i| i.display().to_string()).collect(),
        format: origin.format,
        command: origin.command,
        ranks: origin.ranks,
        began_unix_s: origin.began_unix_ns.map(|ns| ns as f64 / 1e9),
        partial: origin.is_partial,
    };
    let shown = document(head, &profile, &found, None);
    std::fs::write(to, trace_page(&shown, &plots.finish())?)?;
    Ok(())
}
