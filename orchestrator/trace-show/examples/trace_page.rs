//! Writes the page of a trace to look at: `cargo run -p cvc-trace-show --example trace_page -- PAGE FILE...`. Each FILE is a Darshan log with DXT
//! (one only), or output of strace.

use cvc_trace::{
    findings::{Asked, Thresholds, facts_of_profile, findings},
    profile::Profiler,
    read_dxt, read_strace_files,
};
use cvc_trace_show::{Both, PlotSink, TraceHead, document, page};
use std::{error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [to, inputs @ ..] = &args[..] else {
        return Err("arguments are needed: PAGE FILE...".into());
    };
    let first = inputs.first().ok_or("a FILE is needed")?;
    let (mut profiler, mut plots) = (Profiler::default(), PlotSink::default());
    let mut both = Both(&mut profiler, &mut plots);
    let is_darshan = first.extension().is_some_and(|e| e == "darshan");
    if is_darshan {
        read_dxt(first, &mut both)?;
    } else {
        read_strace_files(inputs, &mut both)?;
    }
    let profile = profiler.finish();
    let found = findings(
        &facts_of_profile(&profile),
        Asked::default(),
        &Thresholds::default(),
    );
    let head = TraceHead {
        tracer: if is_darshan { "darshan" } else { "strace" }.to_owned(),
        inputs: inputs.iter().map(|i| i.display().to_string()).collect(),
        ..TraceHead::default()
    };
    let shown = document(head, &profile, &found, None);
    std::fs::write(to, page(&shown, &plots.finish())?)?;
    Ok(())
}
