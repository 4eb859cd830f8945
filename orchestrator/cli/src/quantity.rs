//! Amounts on the command line.

/// A time: `3000s`, `50min`, `2h`, `30d`; a number alone is seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" | "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        other => return Err(format!("`{other}` is no unit of time: write s, min, h or d")),
    };
    let count: f64 = number.trim().parse().map_err(|_| "write a number and a unit, as in 3000s, 50min or 2h".to_owned())?;
    let seconds = count * factor;
    if seconds.is_finite() && seconds > 0.0 { Ok(seconds) } else { Err("a time is more than 0 seconds".into()) }
}

/// A part: `30%` or `0.3`.
pub fn part(text: &str) -> Result<f64, String> {
    let (number, factor) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let part = number.trim().parse::<f64>().map_err(|_| "write a part as in 30% or 0.3".to_owned())? * factor;
    if factor == 1.0 && (1.5..=100.0).contains(&part) {
        return Err(format!("{part} without a sign is {} %: write {part}% or {}", part * 100.0, part / 100.0));
    }
    if part.is_finite() && part > 0.0 && part <= 10.0 { Ok(part) } else { Err("a part is more than 0 and at most 1000%".into()) }
}

#[cfg(test)]
mod tests {
    use super::{part, seconds};

    #[test]
    fn times_and_parts_have_units() {
        assert_eq!(seconds("3000"), Ok(3000.0));
        assert_eq!(seconds("1.5h"), Ok(5400.0));
        assert_eq!(seconds("2min"), Ok(120.0));
        for wrong in ["", "h", "-3s", "0s", "3 weeks", "inf", "NaN"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert!((part("30%").expect("a part") - 0.3).abs() < 1e-12);
        assert_eq!(part("0.3"), Ok(0.3));
        assert_eq!(part("30"), Err("30 without a sign is 3000 %: write 30% or 0.3".to_owned()));
        for wrong in ["", "%", "-1%", "0", "x", "30", "NaN"] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }
}
