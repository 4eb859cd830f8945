//! Campaigns for the tests of the engine.
#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses a part of it")]

use cvc_testkit::Campaign;

/// The site of all tests.
pub const SITE: &str = "[sites.local]\nkind = \"local\"\n";

/// A campaign of this program.
pub fn campaign(name: &str, text: &str) -> Campaign {
    Campaign::new(env!("CARGO_BIN_EXE_cvc"), name, text)
}

/// A campaign whose one application is this script under MPICH, with these lines in `[run]`.
pub fn scripted(name: &str, script: &str, run: &str) -> Campaign {
    let text = format!("{SITE}[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\n{run}\n");
    let campaign = campaign(name, &text);
    campaign.script_app("script", script, "");
    campaign
}
