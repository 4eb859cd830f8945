//! Campaigns for the tests of the engine.

pub mod cluster;

use cvc_testkit::Campaign;
use std::path::PathBuf;

/// The site of all tests.
pub const SITE: &str = "[sites.local]\nkind = \"local\"\n";

/// A campaign of this program.
pub fn campaign(name: &str, text: &str) -> Campaign {
    Campaign::new(env!("CARGO_BIN_EXE_cvc"), name, text)
}

/// A campaign whose one application is this script under MPICH, with these lines in `[run]`.
pub fn scripted(name: &str, script: &str, run: &str) -> Campaign {
    let text =
        format!("{SITE}[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\n{run}\n");
    let campaign = campaign(name, &text);
    // Hydra may die of SIGPIPE (code 141) when its rank is gone before it has sent it everything, as on a busy machine
    campaign.script_app("script", &format!("sleep 0.1\n{script}"), "");
    campaign
}

/// The same with runs that end when there is a file, and its path.
pub fn waiting(name: &str, run: &str) -> (Campaign, PathBuf) {
    let campaign = scripted(name, "", run);
    let go = campaign.dir().join("go");
    campaign.script_app(
        "script",
        &format!(
            "sleep 0.1\nuntil [ -e {} ]; do sleep 0.05; done\necho SUCCESS",
            go.display()
        ),
        "",
    );
    (campaign, go)
}
