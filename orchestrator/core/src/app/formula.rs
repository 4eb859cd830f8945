//! Formulas of descriptors, as in `8 * nx * ny * nz`: numbers, variables, `+ - * / ^`, parentheses, `ceil()` and `floor()`.

/// Maximum depth of parentheses, signs and powers; each level is a recursive call.
const MAX_DEPTH: u32 = 64;

/// Returns the value of a formula.
///
/// # Errors
/// The problem with the formula: a character without meaning, or an unknown variable.
pub fn evaluate(text: &str, variable: &dyn Fn(&str) -> Option<f64>) -> Result<f64, String> {
    let mut reader = Reader {
        rest: text,
        depth: 0,
        variable,
    };
    let value = reader.sum()?;
    match reader.rest.trim_start().chars().next() {
        None => Ok(value),
        Some(c) => Err(format!("unexpected `{c}` in the formula `{text}`")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: u32,
    variable: &'a dyn Fn(&str) -> Option<f64>,
}

impl<'a> Reader<'a> {
    /// Skips the next character if it is one of these, and returns it.
    fn skip(&mut self, any: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let next = self.rest.chars().next().filter(|c| any.contains(c))?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// Takes characters as long as `fits` is true for them, and returns them.
    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        while let Some(sign) = self.skip(&['+', '-']) {
            let next = self.product()?;
            value += if sign == '+' { next } else { -next };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.power()?;
        while let Some(sign) = self.skip(&['*', '/']) {
            let next = self.power()?;
            value = if sign == '*' {
                value * next
            } else {
                value / next
            };
        }
        Ok(value)
    }

    fn power(&mut self) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the formula is nested too deeply".to_owned());
        }
        let value = if self.skip(&['-']).is_some() {
            -self.power()?
        } else {
            let base = self.atom()?;
            match self.skip(&['^']) {
                Some(_) => base.powf(self.power()?),
                None => base,
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.skip(&['(']).is_some() {
            let value = self.sum()?;
            return self
                .skip(&[')'])
                .map(|_| value)
                .ok_or_else(|| "a parenthesis is not closed".to_owned());
        }
        self.rest = self.rest.trim_start();
        if self
            .rest
            .starts_with(|c: char| c.is_ascii_digit() || c == '.')
        {
            let number = self.take(|c| c.is_ascii_digit() || c == '.');
            return number
                .parse()
                .map_err(|_| format!("`{number}` is not a number"));
        }
        let name = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        match name {
            "" => Err("the formula ends where a value is missing".to_owned()),
            "ceil" | "floor" if self.rest.starts_with('(') => {
                let value = self.atom()?;
                Ok(if name == "ceil" {
                    value.ceil()
                } else {
                    value.floor()
                })
            }
            _ => (self.variable)(name).ok_or_else(|| format!("unknown variable `{name}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::evaluate;

    #[test]
    fn formulas_have_the_usual_precedence() {
        let of = |text| evaluate(text, &|name| (name == "n").then_some(10.0));
        for (text, value) in [
            ("8 * n^3", 8000.0),
            ("2 + 3 * n - 4 / 2", 30.0),
            ("2^3^2", 512.0),
            ("-n^2 + (1 + n) * 2", -78.0),
            ("ceil(n / 3) + floor(n / 3)", 7.0),
            ("1 - 2 - 3", -4.0),
        ] {
            assert_eq!(of(text), Ok(value), "{text}");
        }
        for (text, part) in [
            ("8 * m", "unknown variable `m`"),
            ("(1 + 2", "not closed"),
            ("2 +", "missing"),
            ("1.2.3", "not a number"),
            ("n % 2", "unexpected `%`"),
            ("é", "missing"),
        ] {
            let refused = of(text).expect_err(text);
            assert!(refused.contains(part), "{text}: {refused}");
        }
        let deep = format!("{}1{}", "(".repeat(20_000), ")".repeat(20_000));
        assert!(of(&deep).is_err() && of(&"-".repeat(20_000)).is_err());
    }
}
