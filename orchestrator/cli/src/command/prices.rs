//! `cvc prices`

use crate::{
    args::PricesArgs,
    exit_status::ExitStatus,
    failure::Failure,
    machine::{clouds, runtime},
    output,
};
use cvc_cloud::cost::{self, PriceBook};
use cvc_cloud::provider::{Account, Clouds, ProviderError};
use cvc_core::campaign::{Ec2Settings, Market, Spec};
use cvc_core::units::dollars;
use cvc_session::campaigns::load;
use cvc_show::Table;
use cvc_sites::error::CampaignError;
use std::io::Write;

pub fn prices(args: &PricesArgs) -> Result<ExitStatus, Failure> {
    let spec = load(&args.file, args.which.variant.as_deref())?;
    let wanted: Vec<(&String, &Ec2Settings)> = spec
        .sites
        .iter()
        .filter_map(|(name, site)| Some((name, site.ec2.as_ref()?)))
        .collect();
    if wanted.is_empty() {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!(
                "{} has no site of kind `ec2`, so there are no prices to fetch",
                args.file
            ),
            hint: Some("set the price of a cluster in [sites.NAME.price]".into()),
        });
    }
    let Some(clouds) = clouds() else {
        return Err(Failure::Other {
            status: ExitStatus::Provider,
            message: "this cvc was built without EC2".into(),
            hint: Some("build it with the feature `ec2`".into()),
        });
    };
    let book = runtime()?.block_on(ask(clouds.as_ref(), &wanted))?;
    show(&spec, &book)?;
    Ok(ExitStatus::Done)
}

/// Queries the prices of each site's instance types, and stores each answer before the next query.
async fn ask(
    clouds: &dyn Clouds,
    wanted: &[(&String, &Ec2Settings)],
) -> Result<PriceBook, Failure> {
    let cache = cost::cache_file();
    for (site, ec2) in wanted {
        let failed = |error: ProviderError| {
            Failure::Campaign(CampaignError::Provider {
                site: (*site).clone(),
                error: Box::new(error),
            })
        };
        let provider = clouds.open(&Account::of(ec2)).await.map_err(failed)?;
        let spot = ec2.instances.market != Market::OnDemand;
        let book = cost::refresh(
            provider.as_ref(),
            &ec2.instances.instance_types,
            spot,
            &cache,
        )
        .await
        .map_err(failed)?;
        for note in book.notes() {
            output::note(format_args!("warning: {note}"));
        }
    }
    Ok(PriceBook::open(&cache))
}

fn show(spec: &Spec, book: &PriceBook) -> Result<(), std::io::Error> {
    let mut rows =
        Table::plain(["site", "region", "type", "market", "an hour", "from"]).wrap(&["from"]);
    for (name, ec2) in spec
        .sites
        .iter()
        .filter_map(|(name, site)| Some((name, site.ec2.as_ref()?)))
    {
        for instance_type in &ec2.instances.instance_types {
            let mut row = |market: &str,
                           price: Result<
                cvc_journal::price::Price,
                cvc_journal::price::UnknownPrice,
            >| {
                let (dollars, from) = match price {
                    Ok(price) => (dollars(price.usd_per_hour), price.source()),
                    Err(_) => ("unknown".to_owned(), "not in the price list".to_owned()),
                };
                rows.row([
                    name.clone(),
                    ec2.region.clone(),
                    instance_type.clone(),
                    market.to_owned(),
                    dollars,
                    from,
                ]);
            };
            row("on demand", book.on_demand(&ec2.region, instance_type));
            if ec2.instances.market != Market::OnDemand {
                row(
                    "spot",
                    book.spot(
                        &ec2.region,
                        instance_type,
                        &ec2.instances.zones,
                        ec2.instances.max_price_usd,
                    ),
                );
            }
        }
    }
    writeln!(output::shown(), "{rows}")
}
