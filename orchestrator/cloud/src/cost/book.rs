//! Price book: the price table that is shipped with cvc, and newer quotes from the cloud's price list.

use super::{
    cache::{self, Cached},
    machines::{self, MachineFacts},
    table::{self, PriceSheet},
};
use crate::provider::{Provider, ProviderError, Quote};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_journal::price::{NodeRate, Price, PriceFrom, UnknownPrice};
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};

/// Hours of a month, to convert monthly prices of disks to hourly ones.
pub const MONTH_HOURS: f64 = 730.0;
/// Age in days after which on-demand prices are queried again; they rarely change.
const LIST_FRESH_DAYS: i64 = 30;
/// Age in days after which spot prices are queried again; they change within hours.
const SPOT_FRESH_DAYS: i64 = 1;
/// Age in hours from which a spot price is not used for a budget.
const SPOT_CERTAIN_HOURS: i64 = 1;

/// Prices of instances, disks, addresses and transfer.
#[derive(Clone, Debug)]
pub struct PriceBook {
    table: &'static PriceSheet,
    quotes: Vec<Quote>,
    notes: Vec<String>,
    now: Timestamp,
    /// Whether prices of the spot market are ignored if they are older than an hour, as a budget requires.
    certain: bool,
}

/// Returns the path of the file in which quotes are kept for later commands.
pub fn cache_file() -> Utf8PathBuf {
    cvc_core::paths::cache().join("prices.json")
}

impl PriceBook {
    /// Returns the prices of the shipped table alone, which are the same on every machine.
    pub fn shipped() -> Self {
        Self {
            table: table::shipped(),
            quotes: Vec::new(),
            notes: Vec::new(),
            now: Timestamp::now(),
            certain: false,
        }
    }

    /// Returns a price book with the shipped table and the quotes of a file. A file that cannot be read is ignored, and the price book gets a note.
    pub fn open(cache: &Utf8Path) -> Self {
        Self::at(cache, Timestamp::now())
    }

    /// Like [`Self::open`], for a plan. `SOURCE_DATE_EPOCH`, seconds since 1970, replaces the current time if it is set, so that the plan can be
    /// reproduced later.
    pub fn open_for_plan(cache: &Utf8Path) -> Self {
        let fixed = std::env::var("SOURCE_DATE_EPOCH").ok();
        let today = fixed
            .and_then(|text| text.parse().ok())
            .and_then(|seconds| Timestamp::from_second(seconds).ok());
        Self::at(cache, today.unwrap_or_else(Timestamp::now))
    }

    /// Like [`Self::open`], with `now` as the current time.
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

    /// Returns the same price book for use with a budget, which must not be exceeded: quotes of the spot market that are older than an hour are
    /// ignored.
    #[must_use]
    pub fn for_budget(self) -> Self {
        Self {
            certain: true,
            now: Timestamp::now(),
            ..self
        }
    }

    /// Adds quotes. If there are two quotes for the same resource, the newer one is used.
    pub fn add(&mut self, quotes: impl IntoIterator<Item = Quote>) {
        cache::merge(&mut self.quotes, quotes);
    }

    /// Returns the date of the oldest shipped machine price that these rates use, if it is more than a year ago; otherwise `None`.
    pub fn outdated<'a>(&self, rates: impl Iterator<Item = &'a NodeRate>) -> Option<Date> {
        let of_machines = rates.filter_map(|rate| match rate.parts.first()?.price.from {
            PriceFrom::Shipped { date } => Some(date),
            _ => None,
        });
        let oldest = of_machines.min()?;
        let a_year_later = oldest.checked_add(1.year()).ok()?;
        (day(self.now) > a_year_later).then_some(oldest)
    }

    /// Returns the problems with the file of quotes.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the shipped facts about an instance type.
    pub fn facts(&self, instance_type: &str) -> Option<&'static MachineFacts> {
        machines::shipped().types.get(instance_type)
    }

    /// Returns the regions for which the shipped table has a price of an instance type.
    pub fn regions_with(&self, instance_type: &str) -> Vec<&'static str> {
        self.table.regions_with(instance_type)
    }

    /// Returns the price of an on-demand instance for an hour.
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

    /// Returns the hourly price of a spot instance: the highest quote in these zones, or in all zones if `zones` is empty. If there is no quote,
    /// returns an upper bound: the on-demand price, or the site's maximum price if that price is unknown. The result never exceeds the site's maximum
    /// price.
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

    /// Returns the time since which the market has had the price that [`Self::spot`] returns; `None` if that price is an upper bound, because the
    /// market's price is unknown. For several zones, returns the time of the last change in any of them, because another zone may have been the most
    /// expensive before.
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

    /// Returns the highest usable quote of the spot market in these zones; `None` if there is none.
    fn spot_quote(&self, region: &str, instance_type: &str, zones: &[String]) -> Option<&Quote> {
        self.spot_quotes(region, instance_type, zones)
            .into_iter()
            .max_by(|a, b| a.usd_per_hour.total_cmp(&b.usd_per_hour))
    }

    /// Returns the usable quotes of the spot market in these zones, or in all zones if `zones` is empty. With a budget, old quotes are not usable.
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

    /// Returns the price of an EBS volume for an hour.
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

    /// Returns the price of a public IPv4 address for an hour.
    pub fn address(&self) -> Price {
        Price::new(
            self.table.address_hour,
            PriceFrom::Shipped {
                date: self.table.date,
            },
        )
    }

    /// Returns the hourly surcharge of unlimited burstable instances whose vCPUs are all busy; `None` for other types.
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

    /// Returns the price of transferring `bytes` out of a region, US dollars. Free allowances are ignored.
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

/// Returns the price of transferring bytes, US dollars; `usd_per_gb` is the price of 2^30 bytes.
pub fn transfer_cost(bytes: u64, usd_per_gb: f64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64 * usd_per_gb
}

/// An EBS volume of known size.
#[derive(Clone, Copy, Debug)]
pub struct DiskSize<'a> {
    /// Type, as in `gp3`.
    pub kind: &'a str,
    /// Size, GiB.
    pub gib: u32,
    /// I/O operations per second, if chosen.
    pub iops: Option<u32>,
    /// MiB per second, if chosen.
    pub throughput_mib_s: Option<u32>,
}

fn day(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// Queries the cloud's current prices, stores them in a file, and returns the price book with them. If they cannot be stored, the price book gets a
/// note.
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
