//! Collects the data for plots while a trace is read.

use super::{
    access::{AccessChart, accesses},
    grid::{GridFigure, GridKind, Users},
};
use cvc_trace::{
    Api, DarshanSummary, Event, FileId, HeatGrid, Missing, Op, Process, ProcessId, Sink,
    profile::role_of,
};
use std::{collections::HashMap, io};

/// Maximum number of roles (groups of similar files) for which bins are kept at the same time.
const MAX_ROLES: usize = 24;

/// Data of the files of one role.
#[derive(Clone, Debug, Default)]
pub(super) struct RolePlot {
    /// Name of the files without numbers.
    pub(super) role: String,
    /// Bytes moved by the lowest interface in the trace.
    pub(super) bytes: u64,
    /// Bytes moved before bins were kept for the role; they are missing in the bins.
    pub(super) unseen_bytes: u64,
    /// Number of operations whose offset the trace does not contain.
    pub(super) placeless: u64,
    /// The interface that moved the bytes.
    pub(super) api: Option<Api>,
    /// Bytes by time and offset; `None` if bins are kept for other roles, which moved more.
    pub(super) grid: Option<Box<GridFigure>>,
    /// Processes by time and offset; kept as long as `grid`.
    pub(super) users: Box<Users>,
    /// Whether several processes moved bytes of the same file.
    pub(super) is_shared: bool,
}

/// The data of all plots.
#[derive(Clone, Debug, Default)]
pub struct Plots {
    /// Start of the first operation and end of the last one, nanoseconds since the start of the trace.
    pub(super) range_ns: Option<(u64, u64)>,
    /// Bytes by time and rank.
    pub(super) ranks: GridFigure,
    /// The highest rank in the trace, even if it moved no bytes.
    pub(super) most_rank: Option<u32>,
    /// Bytes by time and process without a rank, in the order of the processes' first bytes in the trace.
    pub(super) others: GridFigure,
    /// Names of the processes without a rank.
    pub(super) other_names: Vec<String>,
    /// Roles that moved bytes; the role with the most bytes comes first.
    pub(super) roles: Vec<RolePlot>,
    /// Heat maps of Darshan, one for each interface.
    pub(super) heat: Vec<HeatGrid>,
    /// Counters of Darshan for the files on each file system.
    pub(super) access: Vec<AccessChart>,
}

impl Plots {
    /// Adds the data that only the counters of these Darshan logs contain.
    #[must_use]
    pub fn with_logs(mut self, logs: &[DarshanSummary]) -> Self {
        self.heat = logs.iter().flat_map(|log| log.heat.clone()).collect();
        self.access = accesses(logs);
        self
    }
}

/// The row of the plot that a process's operations belong to.
#[derive(Clone, Copy, Debug)]
enum Row {
    Rank(u32),
    Other(u32),
}

/// A [`Sink`] that sums bytes in bins of time and offset, and in bins of time and process. Its memory grows with the numbers of files and processes,
/// not with the number of events.
#[derive(Clone, Debug, Default)]
pub struct PlotSink {
    plots: Plots,
    processes: HashMap<ProcessId, Process>,
    rows: HashMap<ProcessId, Row>,
    /// The lowest interface that moved bytes of any file so far.
    api: Option<Api>,
    role_of_file: HashMap<FileId, usize>,
    /// For each file, the first process that moved bytes.
    user_of_file: HashMap<FileId, ProcessId>,
    by_name: HashMap<String, usize>,
    /// Indices of the roles for which bins are kept.
    gathered: Vec<usize>,
}

impl PlotSink {
    /// Returns the collected plots.
    pub fn finish(self) -> Plots {
        let mut plots = self.plots;
        plots.roles.retain(|role| role.bytes > 0);
        // roles with equal numbers of bytes stay in the order of the trace
        plots
            .roles
            .sort_by_key(|role| std::cmp::Reverse(role.bytes));
        plots
    }

    /// Returns the number of bins in memory, which is bounded for any trace.
    pub fn bins(&self) -> usize {
        let with_bins = |role: &RolePlot| Some((role.grid.as_ref()?.places(), role.users.places()));
        let roles = self.plots.roles.iter().filter_map(with_bins);
        self.plots.ranks.places()
            + self.plots.others.places()
            + roles.map(|(grid, users)| grid + users).sum::<usize>()
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

    fn add_to_rows(&mut self, event: &Event, kind: GridKind, time: (u64, u64)) {
        // calls and streams count as the same level, because a program may use both and both reach the file system
        let level = |api: Api| api.height().max(Api::Stdio.height());
        match self.api {
            Some(api) if level(event.api) > level(api) => return,
            Some(api) if level(event.api) == level(api) => {}
            // a higher interface repeats bytes that the lower one moves
            Some(_) | None => {
                self.plots.ranks = GridFigure::default();
                self.plots.others = GridFigure::default();
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

    fn add_to_role(&mut self, event: &Event, kind: GridKind, time: (u64, u64)) {
        let at = match self.role_of_file.get(&event.file) {
            Some(at) => *at,
            None => {
                // a damaged trace may lack the name
                let at = self.role(role_of(&format!("<file {}>", event.file.0)));
                self.role_of_file.insert(event.file, at);
                at
            }
        };
        let role = &mut self.plots.roles[at];
        match role.api {
            Some(api) if event.api.height() > api.height() => return,
            Some(api) if api == event.api => {}
            Some(_) | None => {
                role.api = Some(event.api);
                (role.bytes, role.unseen_bytes, role.placeless) = (0, 0, 0);
                role.grid = role.grid.take().map(|_| Box::default());
                *role.users = Default::default();
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
        let (Row::Rank(row) | Row::Other(row)) = self.row(event.process);
        let user = *self.user_of_file.entry(event.file).or_insert(event.process);
        let role = &mut self.plots.roles[at];
        role.is_shared |= user != event.process;
        role.users.add(row.into(), time, (offset, last));
        let grid = role.grid.get_or_insert_default();
        grid.add(kind, time, (offset, last), event.bytes);
    }

    /// Decides whether bins are kept for a role: there is room, or another role that moved less than half as many bytes loses its bins. The factor of
    /// two prevents that roles of similar volume displace each other repeatedly.
    fn make_room(&mut self, at: usize) -> bool {
        if self.gathered.len() >= MAX_ROLES {
            let roles = &mut self.plots.roles;
            let bytes = roles[at].bytes;
            let least = (0..self.gathered.len()).min_by_key(|i| roles[self.gathered[*i]].bytes);
            let Some(least) = least.filter(|i| roles[self.gathered[*i]].bytes < bytes / 2) else {
                return false;
            };
            let loser = &mut roles[self.gathered.swap_remove(least)];
            loser.grid = None;
            *loser.users = Default::default();
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
            Op::Read => GridKind::Read,
            Op::Write => GridKind::Write,
            _ => return Ok(()),
        };
        if event.failed || event.bytes == 0 {
            return Ok(());
        }
        // an operation covers the nanoseconds from its start to just before its end
        let time = (start_ns, end_ns.saturating_sub(1).max(start_ns));
        self.add_to_rows(event, kind, time);
        self.add_to_role(event, kind, time);
        Ok(())
    }

    fn missing(&mut self, _: &Missing) -> io::Result<()> {
        Ok(())
    }
}
