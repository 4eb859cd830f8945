//! `cvc advise`

use crate::{
    args::AdviseArgs,
    command::{predict::number, report::formats, sides},
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, emit},
    text::shown,
};
use cvc_analysis::{
    advice::{
        Advice, Constraints, NodePrice, SCHEMA, StoragePrice, advice_report, advise as advise_upon,
    },
    comparison::Side,
};
use cvc_cloud::cost::PriceBook;
use cvc_core::source::suggestion;
use cvc_core::units::{counted, dollars, duration, size};
use cvc_model::pareto::Bounded;
use cvc_show::{Blocks, Table};
use cvc_show::{or_dash, write_all};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of candidates listed; JSON and reports have all.
const LISTED: usize = 20;

/// The output of `--json`.
#[derive(Serialize)]
struct AdviseOutput<'a> {
    schema: u32,
    /// The constraints from the options, in SI units.
    question: &'a Constraints,
    advice: &'a [Advice],
}

pub fn advise(args: &AdviseArgs) -> Result<ExitStatus, Failure> {
    let sides: Vec<Side> = sides::open(&args.sides, &args.which, &args.place)?
        .into_iter()
        .map(|open| open.side)
        .collect();
    let constraints = Constraints {
        times: args.times,
        deadline_s: args.deadline,
        budget_usd: args.budget,
        overhead: args.overhead,
        mtbf_s: args.mtbf,
        walltime_s: args.walltime,
        notice_s: args.notice,
        work_s: args.work,
        every_s: args.every,
        checkpointed: args.checkpointed,
        restart_s: args.restart_time,
        prices: prices(args, &sides)?,
        storage_price: args.dollars_per_gib_month.map(|usd| StoragePrice {
            usd_per_gib_month: usd,
            source: "--dollars-per-gib-month".to_owned(),
        }),
    };
    let mut advice = advise_upon(&sides, &constraints);
    let programs: Vec<String> = advice.iter().map(|a| a.program.clone()).collect();
    if let Some(app) = &args.app {
        advice.retain(|a| {
            a.program == *app
                || a.program
                    .rsplit_once('.')
                    .is_some_and(|(name, _)| name == app)
        });
    }
    if advice.is_empty() {
        return Err(nothing(&programs, args));
    }
    if args.budget.is_some() {
        require_a_price(&advice, &sides)?;
    }
    if let Some(to) = &args.to {
        let title = format!("What to take: {}", args.sides.join(", "));
        for file in write_all(&advice_report(&title, &advice)?, to, &formats(&args.format))? {
            if !args.json {
                emit(shown(&file));
            }
        }
    }
    let printed = AdviseOutput {
        schema: SCHEMA,
        question: &constraints,
        advice: &advice,
    };
    output::answer(args.json, &printed, |out| {
        for (i, one) in advice.iter().enumerate() {
            if i > 0 {
                out.gap();
            }
            show(out, one);
        }
    })?;
    Ok(ExitStatus::Done)
}

/// Returns the price of each site: from the user's options; otherwise, if the site is named like an instance type, from the table that cvc includes.
fn prices(args: &AdviseArgs, sides: &[Side]) -> Result<BTreeMap<String, NodePrice>, Failure> {
    let sites: BTreeSet<String> = sides.iter().flat_map(Side::sites).collect();
    if let Some((unknown, _)) = args.price.iter().find(|(site, _)| !sites.contains(site)) {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("--price: there are no results of a site `{unknown}`"),
            hint: Some(suggestion(
                unknown,
                "sites",
                sites.iter().map(String::as_str),
            )),
        });
    }
    let book = PriceBook::shipped();
    let mut prices: BTreeMap<String, NodePrice> = sites
        .into_iter()
        .filter_map(|site| {
            let price = book.on_demand(&args.region, &site).ok()?;
            let found = NodePrice {
                usd_per_hour: price.usd_per_hour,
                source: format!("on demand in {}, {}", args.region, price.source()),
            };
            Some((site, found))
        })
        .collect();
    let given = args.price.iter();
    prices.extend(given.map(|(site, usd)| (site.clone(), NodePrice::given(*usd))));
    Ok(prices)
}

/// Returns an error if a budget is given and no candidate has a cost.
fn require_a_price(advice: &[Advice], sides: &[Side]) -> Result<(), Failure> {
    let mut candidates = advice.iter().flat_map(|a| &a.candidates);
    if candidates.any(|c| c.cost_usd.is_some()) {
        return Ok(());
    }
    let sites: BTreeSet<String> = sides.iter().flat_map(Side::sites).collect();
    let sites: Vec<String> = sites.into_iter().collect();
    Err(Failure::Other {
        status: ExitStatus::Usage,
        message: format!("--budget: the price of {} is unknown", sites.join(", ")),
        hint: Some(format!(
            "give the hourly price of a node: --price {}=USD",
            sites.first().map_or("SITE", String::as_str)
        )),
    })
}

fn nothing(programs: &[String], args: &AdviseArgs) -> Failure {
    match &args.app {
        Some(app) if !programs.is_empty() => Failure::Other {
            status: ExitStatus::Usage,
            message: format!("`{app}` has no runs with a wall time there"),
            hint: Some(format!("measured are: {}", programs.join(", "))),
        },
        _ if args.checkpointed => Failure::Other {
            status: ExitStatus::Model,
            message: format!("no candidate of {} takes checkpoints", args.sides.join(", ")),
            hint: Some("leave out --checkpointed, or run points with a checkpointer".into()),
        },
        Some(_) | None => Failure::Other {
            status: ExitStatus::Model,
            message: format!("no run of {} has a wall time", args.sides.join(", ")),
            hint: Some("advice needs complete runs; runs that end at their checkpoint (size-only, restarted) have no wall time".into()),
        },
    }
}

/// Formats a value with its interval below it; the value of a single run has none.
fn with_interval(
    of: Bounded,
    value: impl Fn(f64) -> String,
    range: impl Fn(f64, f64) -> String,
) -> String {
    let below = match of.high.is_finite() {
        true => range(of.low, of.high),
        false => "unknown".to_owned(),
    };
    format!("{}\n{below}", value(of.value))
}

/// Formats a range of seconds in one unit.
fn time_range(low_s: f64, high_s: f64) -> String {
    let (unit_s, unit) = match high_s {
        ..1000.0 => (1.0, "s"),
        ..36_000.0 => (60.0, "min"),
        ..864_000.0 => (3600.0, "h"),
        _ => (86_400.0, "days"),
    };
    let shown = |s: f64| number(s / unit_s);
    format!("{} … {} {unit}", shown(low_s), shown(high_s))
}

fn show(out: &mut Blocks, advice: &Advice) {
    out.say(&advice.sentence);
    out.gap();
    // intervals are below their values, and remarks below their candidates, so that the table fits a terminal of 80 columns
    let mut rows = Table::plain([
        "candidate",
        "time\n95 % interval",
        "cost\n95 % interval",
        "stored",
        "standing",
    ])
    .wrap(&["candidate"]);
    for c in advice.candidates.iter().take(LISTED) {
        let time = with_interval(c.time_s, duration, time_range);
        let cost = or_dash(c.cost_usd, |cost| {
            with_interval(cost, dollars, |low, high| {
                format!("{} … {}", dollars(low), dollars(high))
            })
        });
        let stored = or_dash(c.storage_bytes, |bytes| {
            if bytes.value > 0.0 {
                size(bytes.value)
            } else {
                "nothing".to_owned()
            }
        });
        let mut candidate = c.label.clone();
        if !c.remarks.is_empty() {
            candidate += &format!("\n({})", c.remarks.join("; "));
        }
        rows.row([&candidate, &time, &cost, &stored, c.standing()]);
    }
    out.table(rows);
    if advice.candidates.len() > LISTED {
        out.line(format!(
            "and {} more; --json has all",
            advice.candidates.len() - LISTED
        ));
    }
    out.heading("assumed:");
    for a in &advice.assumptions {
        out.item(1, format!("{}: {}", a.name, a.value));
    }
    if !advice.next.is_empty() {
        out.gap();
    }
    for next in &advice.next {
        let cost = next
            .cost_usd
            .map_or_else(String::new, |usd| format!(", {}", dollars(usd)));
        let text = format!(
            "To decide between {} and {}: {} of each ({}{cost}).",
            next.between[0],
            next.between[1],
            counted(next.repeats, "more repeat"),
            duration(next.time_s)
        );
        out.say(text);
    }
}
