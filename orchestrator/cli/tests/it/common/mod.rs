//! Campaigns for the tests of the program.

pub mod cluster;

use cvc_testkit::Campaign;
use std::path::PathBuf;

/// The site of all tests.
pub const SITE: &str = "[sites.local]\nkind = \"local\"\n";

/// Returns a campaign for this program.
pub fn campaign(name: &str, text: &str) -> Campaign {
    Campaign::new(env!("CARGO_BIN_EXE_cvc"), name, text)
}

/// Returns a campaign whose only application is this script under MPICH, with these lines in `[run]`.
pub fn scripted(name: &str, script: &str, run: &str) -> Campaign {
    let text =
        format!("{SITE}[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n[run]\n{run}\n");
    let campaign = campaign(name, &text);
    // on a busy machine Hydra may die of SIGPIPE (code 141) if its rank ends before Hydra has sent it all data
    campaign.script_app("script", &format!("sleep 0.1\n{script}"), "");
    campaign
}

/// Returns such a campaign, whose runs end when a file exists, and the path of the file.
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
