//! EC2 instances as a site of cvc.
