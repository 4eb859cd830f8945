//! Prices: the shipped table, and newer quotes from the cloud's price list.

use super::{
    cache::{self, Cached},
    machines::{self, MachineFacts},
    table::{self, Table},
};
use crate::provider::{Provider, ProviderError, Quote};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_journal::price::{NodeRate, Price, PriceFrom, UnknownPrice};
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};

/// Hours of a month, for turning monthly prices of disks into hourly ones.
pub const MONTH_HOURS: f64 = 730.0;
/// Age after which on-demand prices are asked for again; they rarely change.
const LIST_FRESH_DAYS: i64 = 30;
/// Age after which spot prices are asked for again; the market moves by the hour.
const SPOT_FRESH_DAYS: i64 = 1;
/// Age from which a spot price does not count for a budget.
const SPOT_CERTAIN_HOURS: i64 = 1;

/// Prices of instances, disks, addresses and transfer.
#[derive(Clone, Debug)]
pub struct PriceBook {
    table: &'static Table,
    quotes: Vec<Quote>,
    notes: Vec<String>,
    now: Timestamp,
    /// Whether only prices count that hold for certain.
    certain: bool,
}

/// File in which quotes are kept between commands.
pub fn cache_file() -> Utf8PathBuf {
    cvc_core::paths::cache().join("prices.json")
}

impl PriceBook {
    /// The shipped table alone: the same on every machine.
    pub fn shipped() -> Self {
        Self {
            table: table::shipped(),
            quotes: Vec::new(),
            notes: Vec::new(),
            now: Timestamp::now(),
            certain: false,
        }
    }

    /// The shipped table and the quotes of a file. An unreadable file is left out, with a note.
    pub fn open(cache: &Utf8Path) -> Self {
        Self::at(cache, Timestamp::now())
    }

    /// The same for a plan: `SOURCE_DATE_EPOCH`, seconds since 1970, takes the place of today, so that what is shown can be made again later.
    pub fn open_for_plan(cache: &Utf8Path) -> Self {
        let fixed = std::env::var("SOURCE_DATE_EPOCH").ok();
        let today = fixed
            .and_then(|text| text.parse().ok())
            .and_then(|seconds| Timestamp::from_second(seconds).ok());
        Self::at(cache, today.unwrap_or_else(Timestamp::now))
    }

    /// [`Self::open`] at a given time.
    pub fn at(cache: &Utf8Path, now: Timestamp) -> Self {
        let Cached { quotes, note } = cache::read(cache);
        Self {
            table: table::shipped(),
            quotes,
            notes: note.into_iter().collect(),
            now,
            certain: false,
        }
    }

    /// The same prices for a budget, which must not be exceeded: a quote of the spot market that is older than an hour counts as none.
    #[must_use]
    pub fn for_budget(self) -> Self {
        Self {
            certain: true,
            now: Timestamp::now(),
            ..self
        }
    }

    /// Adds quotes; of two for the same resource the newer one counts.
    pub fn add(&mut self, quotes: impl IntoIterator<Item = Quote>) {
        cache::merge(&mut self.quotes, quotes);
    }

    /// The date of the shipped prices of machines among these, if it is more than a year ago.
    pub fn outdated<'a>(&self, rates: impl Iterator<Item = &'a NodeRate>) -> Option<Date> {
        let of_machines = rates.filter_map(|rate| match rate.parts.first()?.price.from {
            PriceFrom::Shipped { date } => Some(date),
            _ => None,
        });
        let oldest = of_machines.min()?;
        let a_year_later = oldest.checked_add(1.year()).ok()?;
        (day(self.now) > a_year_later).then_some(oldest)
    }

    /// The problem with the file of quotes, if any.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What is known of an instance type.
    pub fn facts(&self, instance_type: &str) -> Option<&'static MachineFacts> {
        machines::shipped().types.get(instance_type)
    }

    /// Regions in which cvc carries a price of an instance type.
    pub fn regions_with(&self, instance_type: &str) -> Vec<&'static str> {
        self.table.regions_with(instance_type)
    }

    /// An hour of an instance on demand.
    pub fn on_demand(&self, region: &str, instance_type: &str) -> Result<Price, UnknownPrice> {
        let shipped = self
            .table
            .instance(region, instance_type)
            .map(|(usd, date)| Price::new(usd, PriceFrom::Shipped { date }));
        let quoted = self
            .quotes
            .iter()
            .filter(|q| !q.spot && q.region == region && q.instance_type == instance_type)
            .max_by_key(|q| q.at);
        let quoted = quoted.map(|quote| {
            let stale = self.is_old(quote.at, LIST_FRESH_DAYS);
            Price {
                stale,
                ..Price::new(
                    quote.usd_per_hour,
                    PriceFrom::List {
                        date: day(quote.at),
                    },
                )
            }
        });
        let newest = [shipped, quoted]
            .into_iter()
            .flatten()
            .max_by_key(|p| p.from.date());
        newest.ok_or_else(|| UnknownPrice::Cloud {
            what: instance_type.to_owned(),
            region: region.to_owned(),
        })
    }

    /// An hour of an instance of the spot market: the highest of the zones that it may be in (empty: of all). Without a quote it is the
    /// price on demand, or the site's maximum, as an upper bound. It never exceeds the maximum.
    pub fn spot(
        &self,
        region: &str,
        instance_type: &str,
        zones: &[String],
        max_price_usd: Option<f64>,
    ) -> Result<Price, UnknownPrice> {
        let quoted = self.spot_quote(region, instance_type, zones);
        let limit = max_price_usd.map(|usd| Price {
            at_most: true,
            ..Price::new(usd, PriceFrom::Campaign)
        });
        let price = match (quoted, &limit) {
            (Some(quote), _) => {
                let from = PriceFrom::Spot {
                    date: day(quote.at),
                    zone: quote.zone.clone(),
                };
                Price {
                    stale: self.is_old(quote.held_at(), SPOT_FRESH_DAYS),
                    ..Price::new(quote.usd_per_hour, from)
                }
            }
            (None, limit) => match (self.on_demand(region, instance_type), limit) {
                (Ok(price), _) => Price {
                    at_most: true,
                    ..price
                },
                (Err(_), Some(limit)) => limit.clone(),
                (Err(unknown), None) => return Err(unknown),
            },
        };
        Ok(match limit {
            Some(limit) if limit.usd_per_hour < price.usd_per_hour => limit,
            _ => price,
        })
    }

    /// Since when the market has the price that [`Self::spot`] returns; `None` if it is an upper bound, because the market's is not known. Of
    /// several zones, since the last change in any of them: until then another one may have been the dearest.
    pub fn spot_since(
        &self,
        region: &str,
        instance_type: &str,
        zones: &[String],
    ) -> Option<Timestamp> {
        self.spot_quotes(region, instance_type, zones)
            .into_iter()
            .map(|quote| quote.at)
            .max()
    }

    /// The highest quote of the spot market among these zones.
    fn spot_quote(&self, region: &str, instance_type: &str, zones: &[String]) -> Option<&Quote> {
        self.spot_quotes(region, instance_type, zones)
            .into_iter()
            .max_by(|a, b| a.usd_per_hour.total_cmp(&b.usd_per_hour))
    }

    /// The quotes of the spot market that count in these zones.
    fn spot_quotes(&self, region: &str, instance_type: &str, zones: &[String]) -> Vec<&Quote> {
        let may_be = |quote: &&Quote| {
            quote.spot
                && quote.region == region
                && quote.instance_type == instance_type
                && (zones.is_empty() || quote.zone.as_ref().is_none_or(|z| zones.contains(z)))
                && (!self.certain
                    || self.now.duration_since(quote.held_at()).as_hours() < SPOT_CERTAIN_HOURS)
        };
        self.quotes.iter().filter(may_be).collect()
    }

    /// An hour of an EBS volume.
    pub fn disk(&self, region: &str, disk: &DiskSize<'_>) -> Result<Price, UnknownPrice> {
        let unknown = |what: String| UnknownPrice::Cloud {
            what,
            region: region.to_owned(),
        };
        let kind = disk.kind;
        let of = self
            .table
            .disks
            .get(region)
            .and_then(|d| d.get(kind))
            .ok_or_else(|| unknown(format!("{kind} volumes")))?;
        let more = |free: u32, wanted: Option<u32>| wanted.map_or(0, |w| w.saturating_sub(free));
        let (iops, throughput) = (
            more(of.iops_free, disk.iops),
            more(of.throughput_free, disk.throughput_mib_s),
        );
        let mut month = of.gib_month * f64::from(disk.gib);
        if iops > 0 {
            let known = of
                .iops_month
                .filter(|_| of.iops_most.is_none_or(|most| iops <= most));
            month += f64::from(iops)
                * known.ok_or_else(|| {
                    unknown(format!(
                        "{iops} I/O operations per second of {kind} volumes"
                    ))
                })?;
        }
        if throughput > 0 {
            let known = of
                .throughput_month
                .ok_or_else(|| unknown(format!("{throughput} MiB/s of {kind} volumes")))?;
            month += f64::from(throughput) * known;
        }
        Ok(Price::new(
            month / MONTH_HOURS,
            PriceFrom::Shipped {
                date: self.table.date,
            },
        ))
    }

    /// An hour of a public IPv4 address.
    pub fn address(&self) -> Price {
        Price::new(
            self.table.address_hour,
            PriceFrom::Shipped {
                date: self.table.date,
            },
        )
    }

    /// The surcharge of unlimited burstable instances for an hour in which all their vCPUs are busy; `None` for other types.
    pub fn credits(&self, instance_type: &str) -> Option<Price> {
        let of = self.facts(instance_type)?;
        let busy = (1.0 - of.baseline?) * f64::from(of.vcpus);
        let usd = self
            .table
            .credits_vcpu_hour
            .get(instance_type.split('.').next()?)?;
        let from = PriceFrom::Shipped {
            date: self.table.date,
        };
        Some(Price {
            at_most: true,
            ..Price::new(busy * usd, from)
        })
    }

    /// US dollars for bytes that leave a region, ignoring free allowances.
    pub fn transfer(&self, region: &str, bytes: u64) -> Result<f64, UnknownPrice> {
        let per_gb = self.table.transfer_gb.get(region);
        per_gb
            .map(|usd| transfer_cost(bytes, *usd))
            .ok_or_else(|| UnknownPrice::Cloud {
                what: "transfer".to_owned(),
                region: region.to_owned(),
            })
    }

    fn is_old(&self, at: Timestamp, days: i64) -> bool {
        self.now.duration_since(at).as_hours() > days * 24
    }
}

/// US dollars for bytes, at a price for 2^30 of them.
pub fn transfer_cost(bytes: u64, usd_per_gb: f64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64 * usd_per_gb
}

/// An EBS volume, its size known.
#[derive(Clone, Copy, Debug)]
pub struct DiskSize<'a> {
    /// Type, as in `gp3`.
    pub kind: &'a str,
    /// Size, GiB.
    pub gib: u32,
    /// I/O operations per second, where they are chosen.
    pub iops: Option<u32>,
    /// MiB per second, where they are chosen.
    pub throughput_mib_s: Option<u32>,
}

fn day(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// Asks the cloud for today's prices, and keeps them in the file. A failure to save them becomes a note.
pub async fn refresh(
    provider: &dyn Provider,
    types: &[String],
    spot: bool,
    cache: &Utf8Path,
) -> Result<PriceBook, ProviderError> {
    let mut quotes = provider.prices(types, false).await?;
    if spot {
        quotes.extend(provider.prices(types, true).await?);
    }
    let mut book = PriceBook::open(cache);
    book.add(quotes);
    if let Err(error) = cache::write(cache, &book.quotes) {
        book.notes.push(format!("cannot save prices: {error}"));
    }
    Ok(book)
}
