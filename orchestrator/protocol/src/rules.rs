//! The rules that cvc follows, and others that go wrong.

/// By which rules a model behaves. Each other set differs from the present one in one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// What cvc does.
    Present,
    /// A campaign is called by its machine's name and its directory instead of a random lineage.
    IdentityIsPlace,
    /// What is kept is written into the journal before it is on the shelf, and what is not on the shelf counts as given away.
    JournalBeforeShelf,
    /// Each fleet may exist for as long as the rest of the budget pays for that fleet alone.
    WholeAllowanceEach,
    /// A sweep looks whether the lock of a campaign is free, and lets it go before it removes anything.
    SweepLetsLockGo,
    /// A sweep asks only journals whether a fleet is kept or in use, not the shelf and the directories of those who take over, and ends
    /// what may be a campaign's whose lock it could not take.
    SweepAsksJournalsOnly,
    /// `down` asks the journal for leases only, not for sites that were opened: a fleet may be taken over before it is in a journal.
    DownAsksLeasesOnly,
    /// A controller that cannot write ends its fleet even if another campaign may have it by now.
    MuteEndsShelved,
}

/// How far a model goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// How often controllers are killed or cannot write, all together.
    pub faults: u8,
    /// How often somebody sweeps, and how often a directory is renamed.
    pub others: u8,
}

impl Bound {
    /// Seconds in a debug build.
    pub const SMALL: Self = Self { faults: 2, others: 1 };
}
