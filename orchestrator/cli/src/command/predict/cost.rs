//! Costs of a job: machines for its time, and storage for two checkpoints until its end.

use crate::{args::PredictArgs, exit_status::ExitStatus, failure::Failure};
use cvc_analysis::advice::StoragePrice;
use cvc_cloud::cost::{DiskSize, MONTH_HOURS, PriceBook, machines};
use cvc_core::{
    source::suggestion,
    units::{MIB, counted, dollars},
};
use cvc_prediction::predict::Scheduled;
use cvc_show::{Blocks, Table, or_dash};
use serde::Serialize;

/// Prices that the costs of a job depend on.
pub struct JobPrices {
    machines: MachinePrice,
    storage: Option<StoragePrice>,
}

enum MachinePrice {
    /// Price of all machines together, US dollars per hour.
    All(f64),
    /// Price of each machine, US dollars per hour, and its name.
    Each(f64, String),
}

/// The cost of a job whose checkpoint interval follows a rule.
#[derive(Clone, Debug, Serialize)]
pub struct RuleCost {
    /// Name of the rule; `no checkpoint` for the program alone, without failures.
    pub rule: &'static str,
    /// Duration of the job, hours; with failures the expected duration.
    pub hours: f64,
    /// Price of all machines, US dollars per hour.
    pub usd_per_hour: f64,
    /// Where that price comes from.
    pub price: String,
    /// Cost of the machines, US dollars.
    pub machines_usd: f64,
    /// Cost of storage, US dollars; null if the price of storage or the size of a checkpoint is unknown.
    pub storage_usd: Option<f64>,
    /// Where the price of storage comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_price: Option<String>,
}

impl JobPrices {
    /// Returns the prices from the options; `None` if no option gives one.
    pub fn of(args: &PredictArgs) -> Result<Option<Self>, Failure> {
        let given = given(args);
        if let Some(usd) = args.stored.dollars_per_hour {
            return Ok(Some(Self {
                machines: MachinePrice::All(usd),
                storage: given,
            }));
        }
        let Some(name) = &args.instance else {
            return Ok(None);
        };
        if args.app_time.is_none() && !args.kept.storage {
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: "--instance: the program's time is unknown".to_owned(),
                hint: Some("add --app-time".into()),
            });
        }
        let (book, region) = (PriceBook::shipped(), &args.region);
        let price = book.on_demand(region, name).map_err(|unknown| {
            let is_type = machines::shipped().types.contains_key(name);
            Failure::Other {
                status: ExitStatus::Usage,
                message: unknown.to_string(),
                hint: Some(match is_type {
                    true => format!(
                        "regions with a price: {}; or give --dollars-per-hour",
                        book.regions_with(name).join(", ")
                    ),
                    false => suggestion(
                        name,
                        "types of this family",
                        machines::shipped()
                            .types
                            .keys()
                            .map(String::as_str)
                            .filter(|known| known.split('.').next() == name.split('.').next()),
                    ),
                }),
            }
        })?;
        let disk = DiskSize {
            kind: "gp3",
            gib: 1,
            iops: None,
            throughput_mib_s: None,
        };
        let disk = book.disk(region, &disk).ok();
        Ok(Some(Self {
            machines: MachinePrice::Each(
                price.usd_per_hour,
                format!("{name} on demand in {region}, {}", price.source()),
            ),
            storage: given.or_else(|| {
                disk.map(|p| StoragePrice {
                    usd_per_gib_month: p.usd_per_hour * MONTH_HOURS,
                    source: format!("gp3 in {region}, {}", p.source()),
                })
            }),
        }))
    }

    /// Returns the price of storage from the options. Without one, returns the default for the instance type of the options; `None` without both.
    pub fn of_storage(args: &PredictArgs) -> Result<Option<StoragePrice>, Failure> {
        let given = given(args);
        Ok(match given {
            Some(price) => Some(price),
            None => Self::of(args)?.and_then(|prices| prices.storage),
        })
    }

    /// Returns the costs of a job whose program takes `app_s` seconds, for each schedule with a known duration.
    pub fn costs(
        &self,
        nodes: u32,
        app_s: Option<f64>,
        schedules: &[Scheduled],
        stored_mib: Option<f64>,
    ) -> Vec<RuleCost> {
        let (usd_per_hour, price) = match &self.machines {
            MachinePrice::All(usd) => (*usd, "--dollars-per-hour".to_owned()),
            MachinePrice::Each(usd, what) => (
                usd * f64::from(nodes),
                format!("{} of {}, {what}", counted(nodes, "machine"), dollars(*usd)),
            ),
        };
        let storage = stored_mib.zip(self.storage.as_ref());
        let cost = |rule, seconds: f64, takes_checkpoints: bool| {
            let hours = seconds / 3600.0;
            let storage_usd = |(mib, price): (f64, &StoragePrice)| price.usd(mib * MIB, seconds);
            RuleCost {
                rule,
                hours,
                usd_per_hour,
                price: price.clone(),
                machines_usd: hours * usd_per_hour,
                storage_usd: match takes_checkpoints {
                    true => storage.map(storage_usd),
                    false => Some(0.0),
                },
                storage_price: storage.map(|(_, price)| {
                    let usd = dollars(price.usd_per_gib_month);
                    format!("{usd} a GiB-month, {}", price.source)
                }),
            }
        };
        let alone = app_s.map(|seconds| cost("no checkpoint", seconds, false));
        let scheduled = schedules.iter().filter_map(|s| {
            let seconds = match &s.with_failures {
                Some(run) => run.total_s,
                None if s.includes_failures => return None,
                None => s.total_s?,
            };
            Some(cost(s.rule, seconds, s.checkpoints != Some(0)))
        });
        alone.into_iter().chain(scheduled).collect()
    }
}

/// Returns the price of storage from the options.
fn given(args: &PredictArgs) -> Option<StoragePrice> {
    args.stored.dollars_per_gib_month.map(|usd| StoragePrice {
        usd_per_gib_month: usd,
        source: "--dollars-per-gib-month".to_owned(),
    })
}

/// Prints the costs of a job.
pub fn show_costs(out: &mut Blocks, costs: &[RuleCost]) {
    let Some(first) = costs.first() else { return };
    out.gap();
    out.table(Table::of(
        costs,
        &[
            ("cost of the job", &|c| match c.rule {
                "no checkpoint" => "no checkpoint, no failure".to_owned(),
                rule => rule.to_owned(),
            }),
            ("hours", &|c| format!("{:.2}", c.hours)),
            ("machines", &|c| dollars(c.machines_usd)),
            ("storage", &|c| or_dash(c.storage_usd, dollars)),
            ("together", &|c| {
                dollars(c.machines_usd + c.storage_usd.unwrap_or(0.0))
            }),
        ],
    ));
    out.say(format!(
        "machines: {} an hour ({})",
        dollars(first.usd_per_hour),
        first.price
    ));
    match &first.storage_price {
        Some(price) => out.say(format!("storage: two checkpoints until the job ends, {price}")),
        None => out.say("storage: not counted; its price (--dollars-per-gib-month) or the checkpoint size is unknown"),
    }
}
