//! cvc.
fn main() {}
