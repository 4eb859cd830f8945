//! `cvc trace`

mod asked;
mod jobs;
mod read;
mod show;

pub use read::of_run;

use crate::{
    args::{TraceArgs, TraceCommand, TraceCompareArgs},
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, emit},
    text::shown,
};
use cvc_os::{
    atomic_file::Durability,
    output_file::{self, write_by},
};
use cvc_show::Table;
use cvc_show::{PlotSink, trace_page};
use cvc_trace::document::{CounterRecords, TraceDocument, compare};
use cvc_trace::{All, CsvEvents, CsvRecords, OrderSink, Perfetto, ZoneSink, ZoneTimes};
use cvc_trace::{RecordSums, Sink, TraceOrigin, profile::Profiler};
use serde::Serialize;
use std::io::{self, BufWriter, Write};

pub fn trace(args: &TraceArgs) -> Result<ExitStatus, Failure> {
    match &args.command {
        Some(TraceCommand::Compare(args)) => compare_two(args),
        None => match jobs::logs(args)? {
            Some(logs) => jobs::show(args, &logs),
            None => one(args),
        },
    }
}

/// The collectors that one pass over the events fills.
struct Keepers {
    profiler: Profiler,
    orders: OrderSink,
    zones: Option<ZoneSink>,
    perfetto: Option<Perfetto>,
    plots: Option<PlotSink>,
    records: CounterRecords,
}

/// Destination of CSV: events, or the records of counters if a log has no events.
enum Csv<W> {
    Events(CsvEvents<W>),
    Records(CsvRecords<W>),
}

impl<W: Write> Csv<W> {
    fn new(to: W, events: bool) -> io::Result<Self> {
        Ok(if events {
            Self::Events(CsvEvents::new(to)?)
        } else {
            Self::Records(CsvRecords::new(to)?)
        })
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Self::Events(csv) => csv.finish(),
            Self::Records(csv) => csv.finish(),
        }
    }
}

impl Keepers {
    fn read<W: Write>(
        &mut self,
        args: &TraceArgs,
        csv: Option<&mut Csv<W>>,
    ) -> Result<TraceOrigin, Failure> {
        let mut sinks: Vec<&mut dyn Sink> = vec![&mut self.profiler, &mut self.orders];
        if let Some(zones) = &mut self.zones {
            sinks.push(zones);
        }
        if let Some(perfetto) = &mut self.perfetto {
            sinks.push(perfetto);
        }
        if let Some(plots) = &mut self.plots {
            sinks.push(plots);
        }
        let mut lines = None;
        match csv {
            Some(Csv::Events(csv)) => sinks.push(csv),
            Some(Csv::Records(csv)) => lines = Some(csv),
            None => {}
        }
        let records = &mut self.records;
        let mut each = |record: &RecordSums<'_>| {
            records.add(record);
            lines.as_mut().map_or(Ok(()), |csv| csv.add(record))
        };
        read::read(&args.files, &mut All(sinks), &mut each)
    }
}

fn one(args: &TraceArgs) -> Result<ExitStatus, Failure> {
    let limits = asked::thresholds(args.thresholds.as_deref())?;
    let mut keepers = Keepers {
        profiler: Profiler::default(),
        orders: OrderSink::default(),
        zones: asked::zones(&args.images)?,
        perfetto: args.perfetto.as_ref().map(|_| Perfetto::default()),
        plots: args.html.as_ref().map(|_| PlotSink::default()),
        records: CounterRecords::default(),
    };
    let csv_of_events = args.csv.is_none() || read::has_events(&args.files)?;
    let origin = match args.csv.as_deref().map(camino::Utf8Path::as_str) {
        // CSV goes to standard output: nothing else is printed there
        Some("-") => {
            let mut csv = Csv::new(BufWriter::new(output::shown()), csv_of_events)?;
            keepers.read(args, Some(&mut csv))?;
            csv.finish()?;
            return Ok(ExitStatus::Done);
        }
        Some(path) => {
            let mut origin = None;
            let written = write_by(path.as_ref(), Durability::Visible, |file| {
                let mut csv = Csv::new(BufWriter::new(file), csv_of_events)?;
                origin = Some(keepers.read(args, Some(&mut csv)));
                csv.finish()?.flush()
            });
            let origin = origin.transpose()?;
            written.map_err(|e| read::cannot_write(path, &e))?;
            origin.ok_or_else(|| read::cannot_write(path, &io::Error::other("nothing was read")))?
        }
        None => keepers.read::<io::Sink>(args, None)?,
    };
    let Keepers {
        profiler,
        orders,
        zones,
        perfetto,
        plots,
        records,
    } = keepers;
    if let (Some(path), Some(perfetto)) = (&args.perfetto, perfetto) {
        let mut left_out = 0;
        write_by(path.as_ref(), Durability::Visible, |file| {
            left_out = perfetto.write(BufWriter::new(file))?;
            Ok(())
        })
        .map_err(|e| read::cannot_write(path.as_str(), &e))?;
        if left_out > 0 {
            output::note(format_args!(
                "{}: {left_out} events were omitted, beyond what a browser can show",
                shown(path)
            ));
        }
    }
    let profile = profiler.finish();
    let document =
        read::document(args, &origin, &profile, records, &limits).with_orders(orders.finish());
    let zones = zones.map(ZoneSink::finish);
    if let (Some(path), Some(plots)) = (&args.html, plots) {
        let plots = plots.finish().with_logs(&origin.logs);
        let page = trace_page(&document, &plots).map_err(|e| Failure::Other {
            status: ExitStatus::Internal,
            message: e.to_string(),
            hint: None,
        })?;
        output_file::write(path.as_ref(), page.as_bytes(), Durability::Visible)
            .map_err(|e| read::cannot_write(path.as_str(), &e))?;
    }
    for path in [&args.csv, &args.perfetto, &args.html]
        .into_iter()
        .flatten()
    {
        if !args.json {
            emit(shown(path));
        }
    }
    let answer = TraceAnswer {
        document: &document,
        zones: zones.as_ref(),
    };
    output::answer(args.json, &answer, |out| {
        show::show(out, &document, zones.as_ref(), args.all);
    })?;
    Ok(ExitStatus::Done)
}

/// The output of `--json` for one trace.
#[derive(Serialize)]
struct TraceAnswer<'a> {
    #[serde(flatten)]
    document: &'a TraceDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    zones: Option<&'a ZoneTimes>,
}

fn compare_two(args: &TraceCompareArgs) -> Result<ExitStatus, Failure> {
    let read_one = |path: &camino::Utf8PathBuf| -> Result<_, Failure> {
        let mut profiler = Profiler::default();
        let files = std::slice::from_ref(path);
        let origin = read::read(files, &mut profiler, &mut |_| Ok(()))?;
        let profile = profiler.finish();
        let head = read::head(files, &origin);
        let document: TraceDocument =
            cvc_trace::document::document(head, &profile, &[], args.gap.map(read::nanoseconds))
                .with_counters(&origin.logs, CounterRecords::default());
        Ok((profile, document))
    };
    let (a, b) = (read_one(&args.first)?, read_one(&args.second)?);
    let found = compare((&a.0, &a.1), (&b.0, &b.1));
    output::answer(args.json, &found, |out| {
        for (document, name) in [(&a.1, &args.first), (&b.1, &args.second)] {
            out.line(format!(
                "{}: {}",
                shown(name),
                show::in_a_sentence(document)
            ));
        }
        if !found.same.is_empty() {
            let same = found.same.join(", ");
            let order = if found.order_known {
                "in the same order"
            } else {
                "according to the counters, which have no order"
            };
            out.line(format!("the same operations {order}: {same}"));
        }
        if !found.differences.is_empty() {
            out.gap();
            let mut rows =
                Table::plain(["files", "differs", "first", "second"]).wrap(&["first", "second"]);
            for d in &found.differences {
                rows.row([d.role.as_str(), d.what, &d.a, &d.b]);
            }
            out.table(rows);
        }
    })?;
    Ok(if args.gate && !found.differences.is_empty() {
        ExitStatus::Differs
    } else {
        ExitStatus::Done
    })
}
