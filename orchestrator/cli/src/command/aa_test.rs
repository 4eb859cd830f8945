//! `cvc aa-test CAMPAIGN`

use crate::command::records::warn_of_index;
use crate::{args::AaTestArgs, exit_status::ExitStatus, failure::Failure, output};
use cvc_analysis::aa_test::{AaTest, FalsePositives, aa_test};
use cvc_index::Index;
use cvc_session::campaigns::campaign_dir;
use cvc_show::{Blocks, Table, or_dash};

/// Maximum number of comparisons listed; JSON has all.
const LISTED: usize = 20;

pub fn test(args: &AaTestArgs) -> Result<ExitStatus, Failure> {
    let variant = args.which.variant.as_deref();
    let dir = campaign_dir(&args.campaign, variant, &args.place.campaigns)?;
    // the index is temporary, because the campaign may be running
    let index = Index::in_temporary_file(dir.root())?;
    warn_of_index(dir.root(), &index)?;
    let result = aa_test(&index)?;
    output::answer(args.json, &output::versioned(&result), |out| {
        show(out, &result)
    })?;
    if !args.json && result.comparisons.is_empty() {
        return Err(Failure::Other {
            status: ExitStatus::Model,
            message: format!(
                "nothing could be compared in {}: no point has eight repeats, and no two points differ only in their site",
                dir.root()
            ),
            hint: Some(
                "set `repeats = 8` or more in its [run] and run `cvc run`; finished runs are kept"
                    .into(),
            ),
        });
    }
    Ok(ExitStatus::Done)
}

fn show(out: &mut Blocks, result: &AaTest) {
    if result.repeats.compared > 0 {
        out.say(describe("odd against even repeats", &result.repeats));
    }
    if let Some(sites) = &result.sites {
        out.say(describe("sites", sites));
    }
    let mut rows = Table::plain([
        "point",
        "at",
        "quantity",
        "compared",
        "ratio",
        "95 % interval",
        "p",
        "adjusted",
    ])
    .wrap(&["at"]);
    let different: Vec<_> = result
        .comparisons
        .iter()
        .filter(|c| c.differs_alone && c.comparison.effect_size.is_some())
        .collect();
    for found in different.iter().take(LISTED) {
        let c = &found.comparison;
        let interval = or_dash(c.interval, |i| format!("{:.3} … {:.3}", i.low, i.high));
        let of = |p: Option<f64>| or_dash(p, |p| format!("{p:.3}"));
        let ratio = format!("{:.3}{}", c.ratio, if found.differs { " *" } else { "" });
        rows.row([
            &found.point,
            &found.at,
            &found.quantity,
            &found.compared,
            &ratio,
            &interval,
            &of(c.p_value),
            &of(c.q_value),
        ]);
    }
    if !rows.rows.is_empty() {
        out.heading("false positives (*: also after the adjustment)");
        out.gap();
        out.table(rows);
    }
    if different.len() > LISTED {
        out.line(format!(
            "and {} more; --json has all comparisons",
            different.len() - LISTED
        ));
    }
}

fn describe(what: &str, found: &FalsePositives) -> String {
    let share = match (found.share, found.share_interval) {
        (Some(share), Some(i)) => {
            format!(
                " ({:.1} %, 95 % interval {:.1} to {:.1} %; nominal 5 %)",
                share * 100.0,
                i.low * 100.0,
                i.high * 100.0
            )
        }
        _ => String::new(),
    };
    format!(
        "A/A test, {what}: {} of {} comparisons are false positives{share}; {} after the adjustment for their number",
        found.differ_alone, found.compared, found.differ
    )
}
