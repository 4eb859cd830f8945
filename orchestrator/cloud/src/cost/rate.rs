//! Price of one node of a site according to the price book, before and after the launch.

use super::{
    book::{DiskSize, PriceBook},
    machines::ROOT_GIB,
};
use crate::provider::FleetRequest;
use cvc_core::campaign::{Credits, Market, Site};
use cvc_core::clock;
use cvc_journal::lease::LaunchOrder;
use cvc_journal::price::{MIN_S, NodeRate, RatePart, UnknownPrice};
use jiff::Timestamp;

/// Returns the price of an instance of this type for a site, including disks and address. `root_gib` is the size of the image's root volume, GiB; it
/// is used if the campaign file gives no size.
pub fn instance_rate(
    book: &PriceBook,
    request: &FleetRequest,
    instance_type: &str,
    spot: bool,
    root_gib: Option<u32>,
) -> Result<NodeRate, UnknownPrice> {
    let region = request.account.region.as_deref().unwrap_or_default();
    let machine = if spot {
        book.spot(
            region,
            instance_type,
            &request.instances.zones,
            request.instances.max_price_usd,
        )?
    } else {
        book.on_demand(region, instance_type)?
    };
    let market = if spot { " (spot)" } else { "" };
    let mut parts = vec![RatePart {
        what: format!("{instance_type}{market}"),
        price: machine,
    }];
    if request.instances.credits_of(instance_type) != Some(Credits::Standard)
        && let Some(credits) = book.credits(instance_type)
    {
        parts.push(RatePart {
            what: "processor credits if always busy".into(),
            price: credits,
        });
    }
    let root = DiskSize {
        kind: &request.instances.root.kind,
        gib: request
            .instances
            .root
            .size_gib
            .or(root_gib)
            .unwrap_or(ROOT_GIB),
        iops: request.instances.root.iops,
        throughput_mib_s: request.instances.root.throughput_mib_s,
    };
    parts.push(RatePart {
        what: format!("root volume, {} of {} GiB", root.kind, root.gib),
        price: book.disk(region, &root)?,
    });
    for volume in &request.instances.volumes {
        let disk = DiskSize {
            kind: &volume.kind,
            gib: volume.size_gib,
            iops: volume.iops,
            throughput_mib_s: volume.throughput_mib_s,
        };
        let what = format!("{}, {} of {} GiB", volume.mount, disk.kind, disk.gib);
        parts.push(RatePart {
            what,
            price: book.disk(region, &disk)?,
        });
    }
    parts.push(RatePart {
        what: "public IPv4 address".into(),
        price: book.address(),
    });
    Ok(NodeRate::new(parts, MIN_S))
}

/// Returns the current price of a launched instance, and the time since which it has had this price. The parts of the price come from the order,
/// except the current price of the machine itself. If the market's price is unknown, the price is an upper bound from now on. `zones` are the
/// possible zones if the order names none. `None` if the order has no price, or if the current price is unknown.
pub fn present_rate(
    book: &PriceBook,
    order: &LaunchOrder,
    zones: &[String],
) -> Option<(NodeRate, Timestamp)> {
    let mut rate = order.rate.clone()?;
    let of_order: Vec<String> = order.zone.iter().cloned().collect();
    let zones = if of_order.is_empty() {
        zones
    } else {
        &of_order
    };
    let (region, name) = (&order.region, &order.instance_type);
    let (price, since) = if order.spot {
        (
            book.spot(region, name, zones, order.max_price_usd),
            book.spot_since(region, name, zones),
        )
    } else {
        (book.on_demand(region, name), None)
    };
    rate.parts.first_mut()?.price = price.ok()?;
    Some((
        NodeRate::new(rate.parts, rate.least_s),
        since.unwrap_or_else(clock::now),
    ))
}

/// Returns the expected price of a node of a site before the launch: that of the first instance type in the campaign file. If on-demand instances may
/// be launched instead of spot instances, returns the on-demand price as an upper bound. `Ok(None)` if the site has no price.
pub fn planned_rate(
    book: &PriceBook,
    site: &Site,
    cores: Option<u32>,
) -> Result<Option<NodeRate>, UnknownPrice> {
    let Some(request) = site.ec2.as_ref().map(FleetRequest::of) else {
        return match (
            NodeRate::of_settings(&site.price, cores),
            site.price.per_core_hour_usd,
        ) {
            (None, Some(_)) => Err(UnknownPrice::Cores),
            (rate, _) => Ok(rate),
        };
    };
    let Some(first) = request.instances.instance_types.first() else {
        return Ok(None);
    };
    let rate = instance_rate(
        book,
        &request,
        first,
        request.instances.market == Market::Spot,
        None,
    )?;
    let may_give_way = request.instances.market == Market::SpotThenOnDemand;
    Ok(Some(if may_give_way { rate.at_most() } else { rate }))
}

/// Returns the highest price of the instance types that a site may get. A budget must cover this price.
///
/// # Errors
/// The price of a type is unknown; it may be the highest.
pub fn dearest_rate(
    book: &PriceBook,
    site: &Site,
    cores: Option<u32>,
) -> Result<NodeRate, UnknownPrice> {
    let Some(request) = site.ec2.as_ref().map(FleetRequest::of) else {
        return NodeRate::of_settings(&site.price, cores).ok_or(UnknownPrice::Cores);
    };
    let spot = request.instances.market == Market::Spot;
    let rates = request
        .instances
        .instance_types
        .iter()
        .map(|name| instance_rate(book, &request, name, spot, None));
    let rates = rates.collect::<Result<Vec<NodeRate>, UnknownPrice>>()?;
    let region = request.account.region.clone().unwrap_or_default();
    let none = UnknownPrice::Cloud {
        what: "instances without a type".to_owned(),
        region,
    };
    rates
        .into_iter()
        .max_by(|a, b| a.usd_per_hour.total_cmp(&b.usd_per_hour))
        .ok_or(none)
}
