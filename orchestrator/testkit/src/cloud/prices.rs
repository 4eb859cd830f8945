//! Prices and quotas: AWSPriceListService and ServiceQuotas, which use JSON.

use serde_json::{Value, json};

use super::{
    fault::error,
    price_table::PriceTable,
    server::{HttpRequest, HttpResponse},
    world::World,
};

/// Price of a GB per month in dollars, by volume type.
const VOLUMES: [(&str, f64); 6] = [
    ("gp2", 0.10),
    ("gp3", 0.08),
    ("io1", 0.125),
    ("io2", 0.125),
    ("st1", 0.045),
    ("standard", 0.05),
];

/// Answers GetProducts.
pub(super) fn list_products(world: &World, request: &HttpRequest) -> HttpResponse {
    let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let service = asked["ServiceCode"].as_str().unwrap_or_default();
    let filters: Vec<(String, String)> = asked["Filters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|f| {
            Some((
                f["Field"].as_str()?.to_owned(),
                f["Value"].as_str()?.to_owned(),
            ))
        })
        .collect();
    let regions: Vec<String> = filters
        .iter()
        .filter(|(field, _)| field == "regionCode" || field == "fromRegionCode")
        .map(|f| f.1.clone())
        .collect();
    let regions = if regions.is_empty() {
        vec![world.settings.region.clone()]
    } else {
        regions
    };
    let all = regions.iter().flat_map(|region| match service {
        "AmazonEC2" => ec2_products(&world.settings.prices, region),
        "AWSDataTransfer" => vec![transfer_product(region)],
        _ => Vec::new(),
    });
    let passes = |product: &Value| {
        let attributes = &product["product"]["attributes"];
        filters.iter().all(|(field, value)| {
            let is = if field == "productFamily" {
                &product["product"]["productFamily"]
            } else {
                &attributes[field.as_str()]
            };
            is.as_str().is_some_and(|is| is.eq_ignore_ascii_case(value))
        })
    };
    let found: Vec<String> = all.filter(|p| passes(p)).map(|p| p.to_string()).collect();
    let begin: usize = asked["NextToken"]
        .as_str()
        .and_then(|t| t.parse().ok())
        .unwrap_or(0);
    let size = asked["MaxResults"]
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(100)
        .clamp(1, 100);
    let end = found.len().min(begin + size);
    let mut answer = json!({ "FormatVersion": "aws_v1", "PriceList": found[begin.min(end)..end] });
    if end < found.len() {
        answer["NextToken"] = json!(end.to_string());
    }
    json_answer(&answer)
}

fn ec2_products(prices: &PriceTable, region: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for (kind, price) in &prices.0 {
        // further products, which a query without enough filters also returns
        for (system, tenancy, capacity, price) in [
            ("Linux", "Shared", "Used", *price),
            ("Linux", "Shared", "UnusedCapacityReservation", *price),
            ("Linux", "Shared", "AllocatedCapacityReservation", 0.0),
            ("Linux", "Dedicated", "Used", price * 1.1),
            ("Windows", "Shared", "Used", price * 1.8),
        ] {
            let attributes = json!({
                "servicecode": "AmazonEC2", "location": location(region), "locationType": "AWS Region", "regionCode": region,
                "instanceType": kind, "operatingSystem": system, "tenancy": tenancy, "capacitystatus": capacity, "preInstalledSw": "NA",
                "licenseModel": "No License required", "marketoption": "OnDemand", "usagetype": format!("BoxUsage:{kind}"),
                "operation": if system == "Linux" { "RunInstances" } else { "RunInstances:0002" },
            });
            all.push(product("Compute Instance", &attributes, "Hrs", price));
        }
    }
    let mut of_volume = |family: &str,
                         name: &str,
                         volume: &str,
                         group: &str,
                         unit: &str,
                         price: f64| {
        let attributes = json!({
            "servicecode": "AmazonEC2", "location": location(region), "locationType": "AWS Region", "regionCode": region,
            "volumeApiName": volume, "usagetype": name, "group": group,
        });
        all.push(product(family, &attributes, unit, price));
    };
    for (volume, price) in VOLUMES {
        of_volume(
            "Storage",
            &format!("EBS:VolumeUsage.{volume}"),
            volume,
            "",
            "GB-Mo",
            price,
        );
    }
    of_volume(
        "System Operation",
        "EBS:VolumeP-IOPS.gp3",
        "gp3",
        "EBS IOPS",
        "IOPS-Mo",
        0.005,
    );
    of_volume(
        "System Operation",
        "EBS:VolumeP-IOPS.io2",
        "io2",
        "EBS IOPS Tier 1",
        "IOPS-Mo",
        0.065,
    );
    of_volume(
        "Provisioned Throughput",
        "EBS:VolumeP-Throughput.gp3",
        "gp3",
        "EBS Throughput",
        "GiBps-mo",
        40.96,
    );
    all
}

/// Creates the price of traffic from the region to the internet.
fn transfer_product(region: &str) -> Value {
    let attributes = json!({
        "servicecode": "AWSDataTransfer", "transferType": "AWS Outbound", "fromLocation": location(region), "fromRegionCode": region,
        "toLocation": "External", "usagetype": "DataTransfer-Out-Bytes",
    });
    product("Data Transfer", &attributes, "GB", 0.09)
}

fn product(family: &str, attributes: &Value, unit: &str, price: f64) -> Value {
    let text = attributes.to_string();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let sku = format!("{hash:016X}");
    let term = format!("{sku}.JRTCKXETXF");
    let rate = format!("{term}.6YS6EN2CT7");
    let mut attributes = attributes.clone();
    attributes["servicename"] = json!("Amazon Elastic Compute Cloud");
    let dimension = json!({
        "unit": unit, "endRange": "Inf", "beginRange": "0", "description": format!("${price} per {unit}"), "appliesTo": [],
        "rateCode": rate, "pricePerUnit": { "USD": format!("{price:.10}") },
    });
    let on_demand = json!({
        "priceDimensions": { rate.as_str(): dimension }, "sku": sku, "effectiveDate": "2026-01-01T00:00:00Z",
        "offerTermCode": "JRTCKXETXF", "termAttributes": {},
    });
    json!({
        "product": { "productFamily": family, "attributes": attributes, "sku": sku }, "serviceCode": attributes["servicecode"],
        "terms": { "OnDemand": { term.as_str(): on_demand } }, "version": "20260101000000", "publicationDate": "2026-01-01T00:00:00Z",
    })
}

fn location(region: &str) -> &str {
    match region {
        "us-east-1" => "US East (N. Virginia)",
        "us-east-2" => "US East (Ohio)",
        "us-west-2" => "US West (Oregon)",
        "eu-west-1" => "EU (Ireland)",
        "eu-central-1" => "EU (Frankfurt)",
        other => other,
    }
}

/// Codes and names of the vCPU quotas of standard instances: on demand, spot.
pub(super) const QUOTAS: [(&str, &str); 2] = [
    (
        "L-1216C47A",
        "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    ),
    (
        "L-34B43A08",
        "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
    ),
];

/// Answers GetServiceQuota and ListServiceQuotas.
pub(super) fn list_quotas(
    world: &World,
    request: &HttpRequest,
    action: &str,
    region: &str,
) -> HttpResponse {
    let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let all: Vec<Value> = QUOTAS
        .iter()
        .zip(world.settings.quotas)
        .map(|((code, name), value)| {
            json!({
                "ServiceCode": "ec2", "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)", "QuotaCode": code, "QuotaName": name,
                "QuotaArn": format!("arn:aws:servicequotas:{region}:123456789012:ec2/{code}"), "Value": value, "Unit": "None",
                "Adjustable": true, "GlobalQuota": false,
            })
        })
        .collect();
    if asked["ServiceCode"] != "ec2" {
        return error(
            request,
            "NoSuchResourceException",
            400,
            "The request failed because the specified service does not exist.",
        );
    }
    if action == "ListServiceQuotas" {
        return json_answer(&json!({ "Quotas": all }));
    }
    match all.iter().find(|q| q["QuotaCode"] == asked["QuotaCode"]) {
        Some(quota) => json_answer(&json!({ "Quota": quota })),
        None => error(
            request,
            "NoSuchResourceException",
            400,
            "The request failed because the specified quota does not exist.",
        ),
    }
}

/// Makes an answer of a service that uses JSON.
pub(super) fn json_answer(value: &Value) -> HttpResponse {
    HttpResponse::new(200, "application/x-amz-json-1.1", value.to_string())
}
