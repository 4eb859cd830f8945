//! Prices: the cloud's list, and the spot market's history.

use crate::{Region, observe, tags::filter};
use aws_sdk_ec2::{primitives::DateTime, types::InstanceType};
use aws_sdk_pricing::types::{Filter, FilterType};
use cvc_cloud::provider::{ProviderError, Quote};
use jiff::Timestamp;
use serde_json::Value;
use std::{collections::BTreeMap, time::SystemTime};

impl Region {
    /// Returns on-demand prices; types that are not sold in this region are left out.
    pub(crate) async fn list_prices(
        &self,
        instance_types: &[String],
    ) -> Result<Vec<Quote>, ProviderError> {
        let mut quotes = Vec::new();
        for name in instance_types {
            let filters = [
                ("regionCode", self.name.as_str()),
                ("instanceType", name),
                ("operatingSystem", "Linux"),
                ("tenancy", "Shared"),
                ("preInstalledSw", "NA"),
                ("capacitystatus", "Used"),
            ]
            .map(|(field, value)| {
                Filter::builder()
                    .r#type(FilterType::TermMatch)
                    .field(field)
                    .value(value)
                    .build()
            });
            let filters: Vec<Filter> = filters.into_iter().filter_map(Result::ok).collect();
            let products: Vec<String> = self
                .ask("asking for prices", |s| {
                    let call = s
                        .pricing
                        .get_products()
                        .service_code("AmazonEC2")
                        .set_filters(Some(filters.clone()));
                    call.into_paginator().items().send().try_collect()
                })
                .await?;
            // take the highest of several prices, so that the real cost is never higher
            let price = products
                .iter()
                .filter_map(|p| price(p, name, &self.name))
                .max_by(f64::total_cmp);
            if let Some(usd_per_hour) = price {
                let (instance_type, region) = (name.clone(), self.name.clone());
                quotes.push(Quote {
                    instance_type,
                    region,
                    zone: None,
                    spot: false,
                    usd_per_hour,
                    at: Timestamp::now(),
                    asked: Some(Timestamp::now()),
                });
            }
        }
        Ok(quotes)
    }

    /// Returns the current spot prices by type and zone.
    pub(crate) async fn spot_prices(
        &self,
        instance_types: &[String],
    ) -> Result<Vec<Quote>, ProviderError> {
        let names: Vec<InstanceType> = instance_types
            .iter()
            .map(|n| InstanceType::from(n.as_str()))
            .collect();
        let now = DateTime::from(SystemTime::now());
        let found = self
            .ask("asking for spot prices", |s| {
                s.ec2
                    .describe_spot_price_history()
                    .set_instance_types(Some(names.clone()))
                    .filters(filter(
                        "product-description",
                        ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
                    ))
                    // a history that starts now contains the current prices
                    .start_time(now)
                    .into_paginator()
                    .page_size(1000)
                    .items()
                    .send()
                    .try_collect()
            })
            .await?;
        let mut newest: BTreeMap<(String, String), Quote> = BTreeMap::new();
        for entry in &found {
            let (Some(name), Some(zone)) = (entry.instance_type(), entry.availability_zone())
            else {
                continue;
            };
            let Some(usd_per_hour) = entry
                .spot_price()
                .and_then(|p| p.parse::<f64>().ok())
                .filter(|p| p.is_finite())
            else {
                continue;
            };
            let at = observe::time(entry.timestamp()).unwrap_or_else(Timestamp::now);
            let (instance_type, region) = (name.as_str().to_owned(), self.name.clone());
            let quote = Quote {
                instance_type,
                region,
                zone: Some(zone.to_owned()),
                spot: true,
                usd_per_hour,
                at,
                asked: Some(Timestamp::now()),
            };
            let key = (quote.instance_type.clone(), zone.to_owned());
            if newest
                .get(&key)
                .is_none_or(|q| (q.at, q.usd_per_hour) < (quote.at, quote.usd_per_hour))
            {
                newest.insert(key, quote);
            }
        }
        Ok(newest.into_values().collect())
    }
}

/// Parses the price in a product of the list, which is JSON within JSON. `None` if it is not a price in US dollars for an hour of this type.
fn price(product: &str, instance_type: &str, region: &str) -> Option<f64> {
    let product: Value = serde_json::from_str(product).ok()?;
    let attributes = product.get("product")?.get("attributes")?;
    let is = |name: &str, wanted: &str| {
        attributes
            .get(name)
            .and_then(Value::as_str)
            .is_none_or(|v| v == wanted)
    };
    if !is("instanceType", instance_type) || !is("regionCode", region) {
        return None;
    }
    let terms = product.get("terms")?.get("OnDemand")?.as_object()?;
    let dimensions = terms
        .values()
        .filter_map(|t| t.get("priceDimensions")?.as_object())
        .flat_map(|d| d.values());
    let hourly = dimensions.filter(|d| {
        d.get("unit")
            .and_then(Value::as_str)
            .is_some_and(|u| matches!(u, "Hrs" | "Hours"))
    });
    let prices = hourly.filter_map(|d| {
        d.get("pricePerUnit")?
            .get("USD")?
            .as_str()?
            .parse::<f64>()
            .ok()
    });
    prices
        .filter(|p| p.is_finite() && *p > 0.0)
        .max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a product in the form of the price list, with the list's names of terms and dimensions.
    fn product(unit: &str, usd: &str) -> String {
        format!(
            r#"{{"product":{{"productFamily":"Compute Instance","attributes":{{"instanceType":"c5.xlarge","regionCode":"eu-west-1"}}}},
            "terms":{{"OnDemand":{{"A.B":{{"priceDimensions":{{"A.B.C":{{"unit":"{unit}","pricePerUnit":{{"USD":"{usd}"}}}}}}}}}},
            "Reserved":{{"A.D":{{"priceDimensions":{{"A.D.C":{{"unit":"Hrs","pricePerUnit":{{"USD":"0.0900000000"}}}}}}}}}}}}}}"#
        )
    }

    #[test]
    fn prices_are_read_from_products_or_not_at_all() {
        assert_eq!(
            price(&product("Hrs", "0.1920000000"), "c5.xlarge", "eu-west-1"),
            Some(0.192)
        );
        assert_eq!(
            price(&product("Quantity", "1500"), "c5.xlarge", "eu-west-1"),
            None,
            "a reservation's fee"
        );
        assert_eq!(
            price(&product("Hrs", "0.0000000000"), "c5.xlarge", "eu-west-1"),
            None,
            "a capacity reservation's rest"
        );
        assert_eq!(
            price(&product("Hrs", "free"), "c5.xlarge", "eu-west-1"),
            None
        );
        assert_eq!(
            price(&product("Hrs", "0.1920000000"), "c5.large", "eu-west-1"),
            None,
            "another type"
        );
        assert_eq!(price("{}", "c5.xlarge", "eu-west-1"), None);
        assert_eq!(price("no JSON", "c5.xlarge", "eu-west-1"), None);
    }
}
