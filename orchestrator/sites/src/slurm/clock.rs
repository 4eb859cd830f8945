//! The cluster's clock: Slurm's text answers have local times without a zone.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

/// The time zone of a cluster.
#[derive(Clone, Debug)]
pub struct SlurmClock(TimeZone);

impl Default for SlurmClock {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl SlurmClock {
    /// Creates the clock from the name of the zone (the target of `/etc/localtime`, or `TZ`) and the output of `date +%z`. If both agree, the name is
    /// used, because only a named zone has daylight saving time. Otherwise the offset is used.
    pub fn new(zone: &str, offset: &str) -> Option<Self> {
        let now = Timestamp::now();
        let (sign, digits) = offset.trim().split_at_checked(1)?;
        let (hours, minutes) = digits.split_at_checked(2)?;
        let seconds = hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
        let seconds = match sign {
            "+" => seconds,
            "-" => -seconds,
            _ => return None,
        };
        let offset = jiff::tz::Offset::from_seconds(seconds).ok()?;
        let name = zone
            .trim()
            .rsplit_once("zoneinfo/")
            .map_or(zone.trim(), |(_, name)| name);
        let named = TimeZone::get(name)
            .ok()
            .filter(|tz| tz.to_offset(now) == offset);
        Some(Self(named.unwrap_or_else(|| TimeZone::fixed(offset))))
    }

    /// Parses a time as Slurm writes it (`2026-11-21T18:11:58`, or seconds since 1970). Returns `None` for `N/A`, `Unknown` and the like.
    pub fn read(&self, text: &str) -> Option<Timestamp> {
        let text = text.trim();
        if let Ok(seconds) = text.parse::<i64>() {
            return Timestamp::from_second(seconds).ok().filter(|_| seconds > 0);
        }
        let local: DateTime = text.parse().ok()?;
        self.0.to_timestamp(local).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_are_read_in_the_zone_of_the_cluster() {
        let at = |clock: &SlurmClock, text: &str| clock.read(text).map(|t| t.to_string());
        let clock = SlurmClock::new("", "+0530").expect("an offset");
        assert_eq!(
            at(&clock, "2026-11-21T18:11:58").as_deref(),
            Some("2026-11-21T12:41:58Z")
        );
        assert_eq!(
            at(&clock, "1795284718").as_deref(),
            Some("2026-11-21T18:11:58Z")
        );
        for none in ["N/A", "Unknown", "None", "0", ""] {
            assert_eq!(at(&clock, none), None, "{none}");
        }
        assert!(SlurmClock::new("UTC", "five").is_none());
    }

    #[test]
    fn a_zone_by_name_knows_of_summer_time() {
        let now = Timestamp::now().to_zoned(TimeZone::get("Europe/Madrid").expect("zones"));
        let offset = now.strftime("%z").to_string();
        let clock = SlurmClock::new("/usr/share/zoneinfo/Europe/Madrid", &offset).expect("a zone");
        assert_eq!(
            clock
                .read("2026-07-01T12:00:00")
                .map(|t| t.to_string())
                .as_deref(),
            Some("2026-07-01T10:00:00Z")
        );
        assert_eq!(
            clock
                .read("2026-12-01T12:00:00")
                .map(|t| t.to_string())
                .as_deref(),
            Some("2026-12-01T11:00:00Z")
        );
        // a name that does not agree with the offset is ignored
        let clock = SlurmClock::new("Europe/Madrid", "-0900").expect("an offset");
        assert_eq!(
            clock
                .read("2026-07-01T12:00:00")
                .map(|t| t.to_string())
                .as_deref(),
            Some("2026-07-01T21:00:00Z")
        );
    }
}
