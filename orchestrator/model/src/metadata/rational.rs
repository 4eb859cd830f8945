//! Fractions of integers, for systems of equations that are solved without rounding.

/// A fraction in lowest terms with a positive denominator. All operations return `None` if the result does not fit into 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rational {
    numerator: i128,
    denominator: i128,
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.saturating_abs()
}

impl Rational {
    pub(super) const ZERO: Self = Self {
        numerator: 0,
        denominator: 1,
    };

    pub(super) fn whole(value: i128) -> Self {
        Self {
            numerator: value,
            denominator: 1,
        }
    }

    fn new(numerator: i128, denominator: i128) -> Option<Self> {
        let divisor = gcd(numerator, denominator).max(1);
        let sign = if denominator < 0 { -1 } else { 1 };
        Some(Self {
            numerator: (numerator / divisor).checked_mul(sign)?,
            denominator: (denominator / divisor).checked_mul(sign)?,
        })
    }

    pub(super) fn is_zero(self) -> bool {
        self.numerator == 0
    }

    pub(super) fn is_whole(self) -> bool {
        self.denominator == 1
    }

    pub(super) fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    pub(super) fn times(self, other: Self) -> Option<Self> {
        // common factors are removed crosswise first, which keeps the products small
        let (a, b) = (
            gcd(self.numerator, other.denominator).max(1),
            gcd(other.numerator, self.denominator).max(1),
        );
        Self::new(
            (self.numerator / a).checked_mul(other.numerator / b)?,
            (self.denominator / b).checked_mul(other.denominator / a)?,
        )
    }

    pub(super) fn plus(self, other: Self) -> Option<Self> {
        let common = gcd(self.denominator, other.denominator).max(1);
        let (own, others) = (other.denominator / common, self.denominator / common);
        let sum =
            (self.numerator.checked_mul(own)?).checked_add(other.numerator.checked_mul(others)?)?;
        Self::new(sum, self.denominator.checked_mul(own)?)
    }

    pub(super) fn minus(self, other: Self) -> Option<Self> {
        self.plus(Self {
            numerator: other.numerator.checked_neg()?,
            ..other
        })
    }

    /// Returns the quotient; `None` also for a divisor of 0.
    pub(super) fn over(self, other: Self) -> Option<Self> {
        if other.is_zero() {
            return None;
        }
        self.times(Self::new(other.denominator, other.numerator)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_kept_in_lowest_terms() {
        let half = Rational::whole(2).over(Rational::whole(-4)).expect("-1/2");
        assert!(!half.is_whole());
        assert!(half.plus(half).expect("-1").is_whole());
        assert_eq!(half.plus(half), Some(Rational::whole(-1)));
        assert_eq!(half.minus(half), Some(Rational::ZERO));
        assert_eq!(half.times(half).map(Rational::to_f64), Some(0.25));
        assert_eq!(half.over(Rational::ZERO), None);
    }

    #[test]
    fn what_128_bits_do_not_hold_is_none() {
        let large = Rational::whole(i128::MAX / 2);
        assert_eq!(large.times(large), None);
        assert_eq!(large.plus(large).and_then(|sum| sum.plus(large)), None);
    }
}
