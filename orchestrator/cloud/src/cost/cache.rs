//! Quotes from a cloud, stored in a file of the user's cache.

use crate::provider::Quote;
use camino::Utf8Path;
use cvc_core::store::{StoreError, write_whole};
use serde::{Deserialize, Serialize};

/// Version of the file's format.
const SCHEMA: u32 = 1;

#[derive(Serialize, Deserialize)]
struct File {
    schema: u32,
    quotes: Vec<Quote>,
}

/// The content of the file.
#[derive(Debug, Default)]
pub struct Cached {
    /// The quotes.
    pub quotes: Vec<Quote>,
    /// The problem with the file, if any.
    pub note: Option<String>,
}

/// Reads the file. If the file is missing, returns no quotes; if it is unreadable, returns no quotes and a note.
pub fn read(path: &Utf8Path) -> Cached {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Cached::default(),
        Err(error) => {
            return Cached {
                quotes: Vec::new(),
                note: Some(format!("{path}: {error}; its prices are ignored")),
            };
        }
    };
    let whole = serde_json::from_slice::<File>(&text).map_err(|e| e.to_string());
    let known = whole.and_then(|f| {
        if f.schema == SCHEMA {
            Ok(f.quotes)
        } else {
            Err(format!("unknown format {}", f.schema))
        }
    });
    match known {
        Ok(quotes) => Cached {
            quotes: quotes.into_iter().filter(is_sane).collect(),
            note: None,
        },
        Err(wrong) => Cached {
            quotes: Vec::new(),
            note: Some(format!("{path}: {wrong}; its prices are ignored")),
        },
    }
}

/// Writes the file atomically.
pub fn write(path: &Utf8Path, quotes: &[Quote]) -> Result<(), StoreError> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(StoreError::io("make", directory))?;
    }
    let file = File {
        schema: SCHEMA,
        quotes: quotes.to_vec(),
    };
    write_whole(path, &serde_json::to_vec_pretty(&file).unwrap_or_default())
}

/// Adds `more` quotes to `quotes`. If there are two quotes for the same resource, the newer one stays.
pub fn merge(quotes: &mut Vec<Quote>, more: impl IntoIterator<Item = Quote>) {
    for quote in more.into_iter().filter(is_sane) {
        let same = |q: &&mut Quote| {
            q.instance_type == quote.instance_type
                && q.region == quote.region
                && q.zone == quote.zone
                && q.spot == quote.spot
        };
        match quotes.iter_mut().find(same) {
            Some(old) if old.at <= quote.at => *old = quote,
            Some(_) => {}
            None => quotes.push(quote),
        }
    }
}

/// Returns whether a quote is plausible. Price lists contain entries of 0 dollars for reservations, but an instance has a price.
fn is_sane(quote: &Quote) -> bool {
    quote.usd_per_hour.is_finite() && quote.usd_per_hour > 0.0
}
