//! Gathers what plots show while a trace is read.

use super::{
    access::{Access, accesses},
    grid::{Grid, Kind},
};
use cvc_trace::{
    Api, DarshanSummary, Event, FileId, HeatGrid, Missing, Op, Process, ProcessId, Sink,
    profile::role_of,
};
use std::{collections::HashMap, io};

/// Most roles of files that bins are kept for at a time.
const MOST_ROLES: usize = 24;

/// Files of one role.
#[derive(Clone, Debug, Default)]
pub(super) struct RolePlot {
    /// Their name without its numbers.
    pub(super) role: String,
    /// Bytes that moved by the lowest interface that the trace has of them.
    pub(super) bytes: u64,
    /// Bytes that moved before there were bins for the role: they are in no bin.
    pub(super) unseen_bytes: u64,
    /// Operations whose place in the file the trace does not tell.
    pub(super) placeless: u64,
    /// The interface.
    pub(super) api: Option<Api>,
    /// Time against offset; `None` if other roles move more.
    pub(super) grid: Option<Box<Grid>>,
}

/// What plots show.
#[derive(Clone, Debug, Default)]
pub struct Plots {
    /// When the first operation began and the last ended, nanoseconds since the start of the trace.
    pub(super) range_ns: Option<(u64, u64)>,
    /// Ranks against time.
    pub(super) ranks: Grid,
    /// The highest rank, whether it moved bytes or not.
    pub(super) most_rank: Option<u32>,
    /// Processes without a rank against time, in the order in which the trace tells of their bytes.
    pub(super) others: Grid,
    /// Their names.
    pub(super) other_names: Vec<String>,
    /// Roles that moved bytes, most bytes first.
    pub(super) roles: Vec<RolePlot>,
    /// Heat maps of Darshan, one for each interface.
    pub(super) heat: Vec<HeatGrid>,
    /// What counters of Darshan tell of the files on each file system.
    pub(super) access: Vec<Access>,
}

impl Plots {
    /// Adds what only the counters of these logs tell.
    #[must_use]
    pub fn with_logs(mut self, logs: &[DarshanSummary]) -> Self {
        self.heat = logs.iter().flat_map(|log| log.heat.clone()).collect();
        self.access = accesses(logs);
        self
    }
}

/// Where operations of a process are counted.
#[derive(Clone, Copy, Debug)]
enum Row {
    Rank(u32),
    Other(u32),
}

/// A [`Sink`] that gathers two-dimensional bins of time against offset and of time against processes. Its memory grows with the numbers of files and
/// processes, and not with events.
#[derive(Clone, Debug, Default)]
pub struct PlotSink {
    plots: Plots,
    processes: HashMap<ProcessId, Process>,
    rows: HashMap<ProcessId, Row>,
    /// The lowest interface that moved bytes of any file.
    api: Option<Api>,
    role_of_file: HashMap<FileId, usize>,
    by_name: HashMap<String, usize>,
    /// The roles that have bins.
    gathered: Vec<usize>,
}

/// The order of interfaces, from the file system upwards: what a higher one moves, a lower one moves too, or nobody saw it reach a file.
fn height(api: Api) -> u8 {
    match api {
        Api::Posix => 0,
        Api::Stdio => 1,
        Api::MpiIo => 2,
        Api::Other => 3,
    }
}

impl PlotSink {
    /// What was gathered.
    pub fn finish(self) -> Plots {
        let mut plots = self.plots;
        plots.roles.retain(|role| role.bytes > 0);
        // of as many bytes in the order of the trace
        plots
            .roles
            .sort_by_key(|role| std::cmp::Reverse(role.bytes));
        plots
    }

    /// How many bins it keeps: bounded, whatever the trace.
    pub fn bins(&self) -> usize {
        let roles = self.plots.roles.iter().filter_map(|r| r.grid.as_ref());
        self.plots.ranks.places()
            + self.plots.others.places()
            + roles.map(|grid| grid.places()).sum::<usize>()
    }

    fn role(&mut self, name: String) -> usize {
        let roles = &mut self.plots.roles;
        *self.by_name.entry(name).or_insert_with_key(|role| {
            roles.push(RolePlot {
                role: role.clone(),
                ..RolePlot::default()
            });
            roles.len() - 1
        })
    }

    fn row(&mut self, id: ProcessId) -> Row {
        if let Some(row) = self.rows.get(&id) {
            return *row;
        }
        let names = &mut self.plots.other_names;
        let row = match self.processes.get(&id) {
            Some(Process {
                rank: Some(rank), ..
            }) => Row::Rank(*rank),
            other => {
                let pid = other.and_then(|p| p.pid);
                names.push(pid.map_or_else(|| format!("process {}", id.0), |p| format!("pid {p}")));
                Row::Other((names.len() - 1).try_into().unwrap_or(u32::MAX))
            }
        };
        self.rows.insert(id, row);
        row
    }

    fn add_to_rows(&mut self, event: &Event, kind: Kind, time: (u64, u64)) {
        // files of one program go through calls and streams side by side; both reach the file system
        let level = |api: Api| height(api).max(height(Api::Stdio));
        match self.api {
            Some(api) if level(event.api) > level(api) => return,
            Some(api) if level(event.api) == level(api) => {}
            // what higher ones moved comes again
            Some(_) | None => {
                self.plots.ranks = Grid::default();
                self.plots.others = Grid::default();
                self.plots.other_names.clear();
                self.rows.clear();
                self.api = Some(event.api);
            }
        }
        let (grid, row) = match self.row(event.process) {
            Row::Rank(row) => (&mut self.plots.ranks, row),
            Row::Other(row) => (&mut self.plots.others, row),
        };
        grid.add(kind, time, (row.into(), row.into()), event.bytes);
    }

    fn add_to_role(&mut self, event: &Event, kind: Kind, time: (u64, u64)) {
        let at = match self.role_of_file.get(&event.file) {
            Some(at) => *at,
            None => {
                // a damaged trace may have lost the name
                let at = self.role(role_of(&format!("<file {}>", event.file.0)));
                self.role_of_file.insert(event.file, at);
                at
            }
        };
        let role = &mut self.plots.roles[at];
        match role.api {
            Some(api) if height(event.api) > height(api) => return,
            Some(api) if api == event.api => {}
            Some(_) | None => {
                role.api = Some(event.api);
                (role.bytes, role.unseen_bytes, role.placeless) = (0, 0, 0);
                role.grid = role.grid.take().map(|_| Box::default());
            }
        }
        role.bytes = role.bytes.saturating_add(event.bytes);
        let Some(offset) = event.offset else {
            role.placeless += 1;
            return;
        };
        if role.grid.is_none() && !self.make_room(at) {
            let role = &mut self.plots.roles[at];
            role.unseen_bytes = role.bytes;
            return;
        }
        let last = offset.saturating_add(event.bytes - 1);
        let grid = self.plots.roles[at].grid.get_or_insert_default();
        grid.add(kind, time, (offset, last), event.bytes);
    }

    /// Whether a role gets bins: there is room, or another that has bins moved less than half of its bytes and loses them. With half, roles that move
    /// about as much do not take them from each other again and again.
    fn make_room(&mut self, at: usize) -> bool {
        if self.gathered.len() >= MOST_ROLES {
            let roles = &mut self.plots.roles;
            let bytes = roles[at].bytes;
            let least = (0..self.gathered.len()).min_by_key(|i| roles[self.gathered[*i]].bytes);
            let Some(least) = least.filter(|i| roles[self.gathered[*i]].bytes < bytes / 2) else {
                return false;
            };
            let loser = &mut roles[self.gathered.swap_remove(least)];
            loser.grid = None;
            loser.unseen_bytes = loser.bytes;
        }
        self.gathered.push(at);
        true
    }
}

impl Sink for PlotSink {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        self.plots.most_rank = self.plots.most_rank.max(process.rank);
        self.processes.insert(id, process.clone());
        Ok(())
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        let role = self.role(role_of(&String::from_utf8_lossy(path)));
        self.role_of_file.insert(id, role);
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let (start_ns, end_ns) = (event.start_ns, event.end_ns());
        let range = self.plots.range_ns.get_or_insert((start_ns, end_ns));
        *range = (range.0.min(start_ns), range.1.max(end_ns));
        let kind = match event.op {
            Op::Read => Kind::Read,
            Op::Write => Kind::Write,
            _ => return Ok(()),
        };
        if event.failed || event.bytes == 0 {
            return Ok(());
        }
        // an operation takes the nanoseconds from its start up to its end
        let time = (start_ns, end_ns.saturating_sub(1).max(start_ns));
        self.add_to_rows(event, kind, time);
        self.add_to_role(event, kind, time);
        Ok(())
    }

    fn missing(&mut self, _: &Missing) -> io::Result<()> {
        Ok(())
    }
}
