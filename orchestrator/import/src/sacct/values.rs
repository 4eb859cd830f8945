//! Parses values as Slurm writes them.

/// Parses a duration to seconds: `[days-]hours:minutes:seconds` or `minutes:seconds[.fraction]`. `None` for `UNLIMITED`, `INVALID` and anything
/// else.
pub(super) fn elapsed_s(text: &str) -> Option<f64> {
    let (days, clock) = match text.trim().split_once('-') {
        Some((days, clock)) => (days.parse::<u32>().ok()?, clock),
        None => (0, text.trim()),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    if !(2..=3).contains(&parts.len()) {
        return None;
    }
    let mut seconds = 0.0;
    for part in &parts {
        let value: f64 = part.parse().ok()?;
        if !part.starts_with(|c: char| c.is_ascii_digit()) || !value.is_finite() {
            return None;
        }
        seconds = seconds * 60.0 + value;
    }
    Some(f64::from(days) * 86_400.0 + seconds)
}

/// What an amount of memory refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryOf {
    /// Memory per node: `4Gn`.
    Node,
    /// Memory per processor: `4Gc`.
    Cpu,
    /// Memory of the whole job: `4G`, as Slurm writes it since 21.08.
    Job,
}

/// Parses an amount of memory to MiB: `4000M`, `3.91G`, `4Gn`, `2Gc`; without a unit it is in MiB.
pub(super) fn memory_mib(text: &str) -> Option<(f64, MemoryOf)> {
    let text = text.trim();
    let (text, of) = match text.strip_suffix('n') {
        Some(rest) => (rest, MemoryOf::Node),
        None => match text.strip_suffix('c') {
            Some(rest) => (rest, MemoryOf::Cpu),
            None => (text, MemoryOf::Job),
        },
    };
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let mib = match text[number.len()..].to_ascii_uppercase().as_str() {
        "K" | "KB" => 1.0 / 1024.0,
        "" | "M" | "MB" => 1.0,
        "G" | "GB" => 1024.0,
        "T" | "TB" => 1024.0 * 1024.0,
        "P" | "PB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number * mib, of))
}

/// Converts an amount of memory to that of one node, MiB.
pub(super) fn of_node(mib: f64, of: MemoryOf, nodes: Option<u32>, cpus: Option<u32>) -> f64 {
    let nodes = f64::from(nodes.unwrap_or(1).max(1));
    match of {
        MemoryOf::Node => mib,
        MemoryOf::Job => mib / nodes,
        MemoryOf::Cpu => mib * (f64::from(cpus.unwrap_or(1)) / nodes).ceil(),
    }
}

/// Parses a whole number, which Slurm may abbreviate: `1536`, `1.50K`.
pub(super) fn count(text: &str) -> Option<u32> {
    let text = text.trim();
    let (number, factor) = match text.strip_suffix(['K', 'k']) {
        Some(number) => (number, 1000.0),
        None => (text, 1.0),
    };
    let value = number.parse::<f64>().ok()? * factor;
    (value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value)).then_some(value as u32)
}

/// Returns the value of an entry in a list of resources such as `cpu=4,mem=8000M,node=1,gres/gpu:a100=2`. The entry's name may have a type after a
/// colon.
pub(super) fn of_tres<'t>(list: &'t str, name: &str) -> Option<&'t str> {
    list.split(',').find_map(|entry| {
        let (key, value) = entry.split_once('=')?;
        (key.trim().split(':').next() == Some(name)).then_some(value)
    })
}
