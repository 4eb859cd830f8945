//! Reads `gluster volume profile VOL info cumulative`, as text or with `--xml`: the number of calls that each brick answered.

use super::{
    counter::{CounterLines, CounterOptions, CounterSnapshot, MetadataCounter, text},
    kind::MetadataKind as K,
};

pub(super) struct GlusterFs;

impl MetadataCounter for GlusterFs {
    fn name(&self) -> &'static str {
        "glusterfs"
    }

    fn recognises(&self, line: &[u8]) -> bool {
        let line = text(line);
        line.starts_with("Brick: ") || line.contains("<volProfile>") || line == "<cliOutput>"
    }

    fn begin(&self, _: &str, _: &CounterOptions) -> Box<dyn CounterLines> {
        Box::new(Bricks {
            found: CounterSnapshot {
                counter: self.name(),
                ..CounterSnapshot::default()
            },
            brick: None,
            section: Section::Cumulative,
            fop: None,
        })
    }
}

/// Returns the kind of a call. Data operations, calls between bricks, and inodes forgotten by the kernel have none.
fn kind(fop: &str) -> Option<K> {
    Some(match fop {
        "CREATE" => K::Create,
        "OPEN" => K::Open,
        "LOOKUP" | "READLINK" => K::Lookup,
        "STAT" | "FSTAT" | "ACCESS" | "STATFS" | "GETXATTR" | "FGETXATTR" => K::GetAttr,
        "SETATTR" | "FSETATTR" | "SETXATTR" | "FSETXATTR" | "REMOVEXATTR" | "FREMOVEXATTR"
        | "XATTROP" | "FXATTROP" | "TRUNCATE" | "FTRUNCATE" | "FALLOCATE" | "DISCARD"
        | "ZEROFILL" => K::SetAttr,
        "MKDIR" | "MKNOD" | "SYMLINK" | "LINK" | "OPENDIR" | "READDIR" | "READDIRP" => {
            K::DirectoryEntry
        }
        "GETSPEC" | "IPC" => K::Configuration,
        "LK" | "INODELK" | "FINODELK" | "ENTRYLK" | "FENTRYLK" | "LEASE" => K::Lock,
        "FSYNC" | "FSYNCDIR" => K::Sync,
        "FLUSH" => K::Close,
        "UNLINK" | "RMDIR" => K::Unlink,
        "RENAME" => K::Rename,
        _ => return None,
    })
}

enum Section {
    Cumulative,
    /// The current counts are those since the last query; they are ignored.
    Interval,
}

struct Bricks {
    found: CounterSnapshot,
    brick: Option<String>,
    section: Section,
    /// Name of the current call in XML; its count follows.
    fop: Option<String>,
}

impl Bricks {
    fn add(&mut self, fop: &str, calls: u64) {
        if let (Some(brick), Section::Cumulative, Some(kind)) =
            (&self.brick, &self.section, kind(fop))
        {
            self.found.source(brick).add(fop, kind, calls);
        }
    }

    fn enter(&mut self, brick: &str) {
        self.section = Section::Cumulative;
        self.brick = Some(brick.to_owned());
        self.found.source(brick);
    }

    fn age(&mut self, seconds: &str) {
        if let (Some(brick), Section::Cumulative, Ok(age)) =
            (&self.brick, &self.section, seconds.parse())
        {
            self.found.source(brick).age_s = Some(age);
        }
    }

    /// Processes an XML element and its text.
    fn element(&mut self, tag: &str, content: &str) {
        match tag {
            "brickName" => self.enter(content),
            "intervalStats" => self.section = Section::Interval,
            "cumulativeStats" => self.section = Section::Cumulative,
            "name" => self.fop = Some(content.to_owned()),
            "hits" => {
                if let (Some(fop), Ok(calls)) = (self.fop.take(), content.parse()) {
                    self.add(&fop, calls);
                }
            }
            "duration" => self.age(content),
            _ => {}
        }
    }
}

impl CounterLines for Bricks {
    fn line(&mut self, line: &[u8]) {
        let line = text(line);
        if line.starts_with('<') {
            for part in line.split('<').skip(1) {
                if let Some((tag, content)) = part.split_once('>') {
                    self.element(tag, content.trim());
                }
            }
        } else if let Some(brick) = line.strip_prefix("Brick: ") {
            self.enter(brick.trim());
        } else if line.starts_with("Cumulative Stats") {
            self.section = Section::Cumulative;
        } else if line.starts_with("Interval ") && line.ends_with("Stats:") {
            self.section = Section::Interval;
        } else if let Some(duration) = line.strip_prefix("Duration: ") {
            self.age(duration.split_whitespace().next().unwrap_or_default());
        } else {
            // example: 3.21 19834.50 ns 15183.00 ns 24486.00 ns 2 INODELK
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [_, _, _, _, _, _, _, calls, fop] = words[..]
                && let Ok(calls) = calls.parse()
            {
                self.add(fop, calls);
            }
        }
    }

    fn finish(self: Box<Self>) -> CounterSnapshot {
        self.found
    }
}
