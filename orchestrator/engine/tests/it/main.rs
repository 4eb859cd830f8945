//! Tests of crews of sentinels.

mod crew;
