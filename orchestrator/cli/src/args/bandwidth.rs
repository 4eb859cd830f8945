//! Arguments of `cvc bandwidth`.

use super::values::seconds;
use camino::Utf8PathBuf;
use clap::Args;
use cvc_core::units::{ByteSize, MIB};

/// Parses a size, and returns it in MiB, rounded up.
fn whole_mib(text: &str) -> Result<u64, cvc_core::units::ByteSizeError> {
    text.parse::<ByteSize>()
        .map(|size| (size.0 as f64 / MIB).ceil() as u64)
}

#[derive(Args)]
pub struct BandwidthArgs {
    /// Directory whose storage is measured; repeatable
    #[arg(long, value_name = "DIR")]
    pub storage: Vec<Utf8PathBuf>,
    /// Concurrent writers [default: 1 and all cores]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub writers: Vec<u16>,
    /// Size per writer
    #[arg(long, value_name = "SIZE", value_parser = whole_mib, default_value = "256MiB")]
    pub size: u64,
    /// Time to measure memory and network
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "1s")]
    pub time: f64,
    /// Wait for one `cvc bandwidth --to`; measure nothing else
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["storage", "writers", "to"])]
    pub listen: Option<std::net::SocketAddr>,
    /// Send to a waiting `cvc bandwidth --listen`
    #[arg(long, value_name = "HOST:PORT")]
    pub to: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
