//! Syntax of option values.

use camino::Utf8PathBuf;

/// Parses a duration: `90s`, `30m`, `1h 30m`, `2d`.
pub(super) fn seconds(text: &str) -> Result<f64, cvc_core::units::DurationError> {
    cvc_core::units::seconds(text)
}

/// Why the value of an option is invalid.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum ValueError {
    #[error("write whole numbers from 1 to 100000, as in 1,2,4")]
    Processes,
    #[error("write a share as 30% or 0.3")]
    Share,
    #[error("`{part}` means {} %: write {part}% or {}", part * 100.0, part / 100.0)]
    UnclearShare { part: f64 },
    #[error("a share must be above 0 and at most 1000%")]
    ShareRange,
    #[error("it is a file; name a directory")]
    File,
    #[error("write a number above 0, as in 12.5")]
    Positive,
    #[error("write a site and its price in US dollars, as in c3.xlarge=0.21")]
    SitePrice,
    #[error("write a factor above 0, for one site as in cluster=1.4")]
    SiteFactor,
    #[error(transparent)]
    Size(#[from] cvc_core::units::ByteSizeError),
    #[error("the rate must be above 0, as in 200MiB")]
    NoRate,
    #[error("not a web address: write it as in https://creativecommons.org/licenses/by/4.0/")]
    WebAddress,
}

/// Parses an address on the web.
pub(super) fn web_address(text: &str) -> Result<String, ValueError> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let is_one = rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && !text.contains(|c: char| c.is_whitespace() || c.is_control())
    });
    match is_one {
        true => Ok(text.to_owned()),
        false => Err(ValueError::WebAddress),
    }
}

/// Parses a rate, `200MiB` or `200MiB/s`, and returns MiB/s.
pub(super) fn mib_each_second(text: &str) -> Result<f64, ValueError> {
    let size: cvc_core::units::ByteSize = text.strip_suffix("/s").unwrap_or(text).parse()?;
    if size.0 == 0 {
        return Err(ValueError::NoRate);
    }
    Ok(size.0 as f64 / f64::from(1 << 20))
}

/// Parses a fraction: `30%` or `0.3`.
pub(super) fn part(text: &str) -> Result<f64, ValueError> {
    let (number, factor) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |number| (number, 0.01));
    let part = number
        .trim()
        .parse::<f64>()
        .map_err(|_| ValueError::Share)?
        * factor;
    if factor == 1.0 && (1.5..=100.0).contains(&part) {
        return Err(ValueError::UnclearShare { part });
    }
    if part.is_finite() && part > 0.0 && part <= 10.0 {
        Ok(part)
    } else {
        Err(ValueError::ShareRange)
    }
}

/// Parses a directory, which need not exist.
pub(super) fn directory(text: &str) -> Result<Utf8PathBuf, ValueError> {
    let path = Utf8PathBuf::from(text);
    if path.exists() && !path.is_dir() {
        Err(ValueError::File)
    } else {
        Ok(path)
    }
}

/// Parses a total number of processes.
pub(super) fn process_count(text: &str) -> Result<u32, ValueError> {
    let count = text.trim().parse();
    count
        .ok()
        .filter(|count| (1..=100_000).contains(count))
        .ok_or(ValueError::Processes)
}

/// Parses a number above 0.
pub(super) fn multiple(text: &str) -> Result<f64, ValueError> {
    let number = text.trim().trim_start_matches('$').parse::<f64>();
    number
        .ok()
        .filter(|number| number.is_finite() && *number > 0.0)
        .ok_or(ValueError::Positive)
}

/// Parses a factor, or a site with its factor.
pub(super) fn site_factor(text: &str) -> Result<(Option<String>, f64), ValueError> {
    match text.rsplit_once('=') {
        Some(("", _)) => Err(ValueError::SiteFactor),
        Some((site, factor)) => Ok((Some(site.to_owned()), multiple(factor)?)),
        None => Ok((None, multiple(text)?)),
    }
}

/// Parses a site with its hourly price.
pub(super) fn site_price(text: &str) -> Result<(String, f64), ValueError> {
    let (site, price) = text.rsplit_once('=').ok_or(ValueError::SitePrice)?;
    if site.is_empty() {
        return Err(ValueError::SitePrice);
    }
    Ok((site.to_owned(), multiple(price)?))
}
