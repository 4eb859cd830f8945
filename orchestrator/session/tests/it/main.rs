//! What commands do with a campaign, in directories of their own: nothing is run, and no site but this machine is asked.

mod bench;
mod campaigns;
mod expectations;
mod explanations;
mod inventories;
mod sessions;
mod trial;
mod words;
