//! A million events to a page: `cargo bench -p cvc-show --bench trace_page`.

#![allow(
    clippy::unwrap_used,
    clippy::allow_attributes,
    missing_docs,
    reason = "a benchmark"
)]

#[path = "../tests/it/page_made.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod page_made;

use criterion::{Criterion, criterion_group, criterion_main};
use cvc_show::{PlotSink, trace_page};
use page_made::{gathered, program};
use std::hint::black_box;

const EVENTS: u64 = 1_000_000;

fn pages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("page");
    group.sample_size(10);
    for (name, noise) in [("of bursts", false), ("of noise", true)] {
        group.bench_function(format!("plots {name}"), |b| {
            b.iter(|| {
                let mut sink = PlotSink::default();
                program(&mut sink, EVENTS, noise);
                black_box(sink.finish())
            });
        });
        group.bench_function(format!("profile, plots and page {name}"), |b| {
            b.iter(|| {
                let (document, plots) = gathered(|sink| program(sink, EVENTS, noise));
                black_box(trace_page(&document, &plots).unwrap())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pages);
criterion_main!(benches);
