//! The layout of counter records in a log, for every version.

use super::{module::DarshanModule, names};

/// A step of the conversion from an old record to the newest version. The steps are those of Darshan's own tools.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit {
    /// Copies this many words.
    Keep(usize),
    /// Skips this many words, which were removed.
    Omit(usize),
    /// Inserts this many counters that the old record lacks, with this value.
    Ints(usize, i64),
    /// Inserts this many times that the old record lacks, with this value.
    Floats(usize, f64),
    /// Adds two counters, which were merged into one.
    Sum,
}
use Edit::{Floats, Ints, Keep, Omit, Sum};

/// Layout of the records of a module: record ID, rank, in some modules the ID of the file, integers, floating-point numbers; 8 bytes each.
#[derive(Debug)]
pub(super) struct RecordLayout {
    pub(super) module: DarshanModule,
    /// Whether the ID of a file precedes the counters.
    pub(super) of_file: bool,
    pub(super) ints: &'static [&'static str],
    pub(super) floats: &'static [&'static str],
    /// The conversions from older versions, beginning with version 1.
    pub(super) old: &'static [&'static [Edit]],
    /// Number of words after the counters that are skipped, such as the IDs of a pool and a container.
    tail: usize,
}

/// Number of words in the longest record.
pub(super) const MAX_WORDS: usize = 160;

static LAYOUTS: [RecordLayout; 9] = [
    RecordLayout {
        module: DarshanModule::Posix,
        of_file: false,
        ints: &names::POSIX_INTS,
        floats: &names::POSIX_FLOATS,
        old: &[
            &[
                Keep(3),
                Ints(2, -1),
                Keep(5),
                Omit(4),
                Keep(2),
                Ints(2, -1),
                Ints(1, 0),
                Keep(59),
                Floats(2, -1.0),
                Keep(12),
            ],
            &[
                Keep(3),
                Ints(2, -1),
                Keep(7),
                Ints(2, -1),
                Ints(1, 0),
                Keep(59),
                Floats(2, -1.0),
                Keep(12),
            ],
            &[
                Keep(3),
                Ints(2, -1),
                Keep(7),
                Ints(2, -1),
                Ints(1, 0),
                Keep(73),
            ],
        ],
        tail: 0,
    },
    RecordLayout {
        module: DarshanModule::MpiIo,
        of_file: false,
        ints: &names::MPIIO_INTS,
        floats: &names::MPIIO_FLOATS,
        old: &[
            &[Keep(56), Floats(2, -1.0), Keep(12)],
            &[Keep(56), Floats(2, -1.0), Keep(12)],
        ],
        tail: 0,
    },
    RecordLayout {
        module: DarshanModule::H5f,
        of_file: false,
        ints: &names::H5F_INTS,
        floats: &names::H5F_FLOATS,
        old: &[
            &[
                Keep(3),
                Ints(2, -1),
                Keep(1),
                Floats(2, -1.0),
                Keep(1),
                Floats(1, -1.0),
            ],
            &[Keep(3), Ints(2, -1), Keep(4), Floats(1, -1.0)],
        ],
        tail: 0,
    },
    RecordLayout {
        module: DarshanModule::H5d,
        of_file: true,
        ints: &names::H5D_INTS,
        floats: &names::H5D_FLOATS,
        old: &[&[Keep(2), Ints(1, 0), Keep(111)]],
        tail: 0,
    },
    RecordLayout {
        module: DarshanModule::PnetcdfFile,
        of_file: false,
        ints: &names::PNETCDF_FILE_INTS,
        floats: &names::PNETCDF_FILE_FLOATS,
        old: &[
            &[
                Keep(2),
                Ints(1, -1),
                Sum,
                Ints(7, -1),
                Keep(1),
                Floats(3, -1.0),
                Keep(1),
                Floats(3, -1.0),
            ],
            &[
                Keep(2),
                Ints(1, -1),
                Sum,
                Ints(7, -1),
                Keep(2),
                Floats(1, -1.0),
                Keep(2),
                Floats(3, -1.0),
            ],
        ],
        tail: 0,
    },
    RecordLayout {
        module: DarshanModule::PnetcdfVar,
        of_file: true,
        ints: &names::PNETCDF_VAR_INTS,
        floats: &names::PNETCDF_VAR_FLOATS,
        old: &[],
        tail: 0,
    },
    RecordLayout {
        module: DarshanModule::Stdio,
        of_file: false,
        ints: &names::STDIO_INTS,
        floats: &names::STDIO_FLOATS,
        old: &[&[Keep(3), Ints(1, -1), Keep(27)]],
        tail: 0,
    },
    RecordLayout {
        module: DarshanModule::Dfs,
        of_file: false,
        ints: &names::DFS_INTS,
        floats: &names::DFS_FLOATS,
        old: &[],
        tail: 4,
    },
    RecordLayout {
        module: DarshanModule::Daos,
        of_file: false,
        ints: &names::DAOS_INTS,
        floats: &names::DAOS_FLOATS,
        old: &[],
        tail: 6,
    },
];

impl RecordLayout {
    /// Returns the layout of a module; `None` if it has no counters.
    pub(super) fn of(module: DarshanModule) -> Option<&'static Self> {
        LAYOUTS.iter().find(|layout| layout.module == module)
    }

    /// Returns the number of words before the counters.
    pub(super) fn base(&self) -> usize {
        2 + usize::from(self.of_file)
    }

    /// Returns the number of words in a record of the newest version.
    pub(super) fn words(&self) -> usize {
        self.base() + self.ints.len() + self.floats.len() + self.tail
    }

    /// Returns the newest version.
    pub(super) fn newest(&self) -> usize {
        self.old.len() + 1
    }

    /// Returns the number of words in a record of `version`. `None`: the version is unknown.
    pub(super) fn words_of(&self, version: u32) -> Option<usize> {
        let version = usize::try_from(version)
            .ok()
            .filter(|version| (1..=self.newest()).contains(version))?;
        Some(self.edits(version).map_or(self.words(), source_words))
    }

    /// Returns the conversion from `version` to the newest one. `None`: it is the newest.
    pub(super) fn edits(&self, version: usize) -> Option<&'static [Edit]> {
        self.old.get(version.wrapping_sub(1)).copied()
    }
}

fn source_words(edits: &[Edit]) -> usize {
    let of = |edit: &Edit| match *edit {
        Keep(words) | Omit(words) => words,
        Ints(..) | Floats(..) => 0,
        Sum => 2,
    };
    edits.iter().map(of).sum()
}

/// Converts the words of an old record to those of the newest version.
pub(super) fn apply(edits: &[Edit], old: &[u64], new: &mut [u64]) {
    let mut old = old.iter().copied();
    let mut new = new.iter_mut();
    let mut put = |word: Option<u64>| {
        if let (Some(place), Some(word)) = (new.next(), word) {
            *place = word;
        }
    };
    for &edit in edits {
        match edit {
            Keep(words) => (0..words).for_each(|_| put(old.next())),
            Omit(words) => (0..words).for_each(|_| _ = old.next()),
            Ints(words, value) => (0..words).for_each(|_| put(Some(value.cast_unsigned()))),
            Floats(words, value) => (0..words).for_each(|_| put(Some(value.to_bits()))),
            Sum => {
                let (first, second) = (old.next(), old.next());
                put(first.zip(second).map(|(a, b)| a.wrapping_add(b)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many words the edits produce.
    fn made(edits: &[Edit]) -> usize {
        let of = |edit: &Edit| match *edit {
            Keep(words) | Ints(words, _) | Floats(words, _) => words,
            Omit(_) => 0,
            Sum => 1,
        };
        edits.iter().map(of).sum()
    }

    #[test]
    fn every_old_record_becomes_one_of_the_newest_length() {
        for layout in &LAYOUTS {
            assert!(layout.words() <= MAX_WORDS);
            for edits in layout.old {
                assert_eq!(made(edits), layout.words(), "{:?}", layout.module);
            }
        }
    }

    #[test]
    fn records_have_the_lengths_of_darshans_structures() {
        let bytes = |module, version| {
            RecordLayout::of(module)
                .and_then(|layout| layout.words_of(version))
                .map(|words| words * 8)
        };
        let of = |module| [1, 2, 3, 4, 5].map(|version| bytes(module, version));
        let some = |lengths: [usize; 5]| lengths.map(|length| (length > 0).then_some(length));
        assert_eq!(of(DarshanModule::Posix), some([680, 648, 664, 704, 0]));
        assert_eq!(of(DarshanModule::MpiIo), some([544, 544, 560, 0, 0]));
        assert_eq!(of(DarshanModule::H5f), some([40, 56, 80, 0, 0]));
        assert_eq!(of(DarshanModule::H5d), some([904, 912, 0, 0, 0]));
        assert_eq!(of(DarshanModule::PnetcdfFile), some([48, 64, 152, 0, 0]));
        assert_eq!(of(DarshanModule::PnetcdfVar), some([1120, 0, 0, 0, 0]));
        assert_eq!(of(DarshanModule::Stdio), some([240, 248, 0, 0, 0]));
        assert_eq!(of(DarshanModule::Dfs), some([584, 0, 0, 0, 0]));
        assert_eq!(of(DarshanModule::Daos), some([696, 0, 0, 0, 0]));
        assert_eq!(bytes(DarshanModule::Posix, 0), None);
    }
}
