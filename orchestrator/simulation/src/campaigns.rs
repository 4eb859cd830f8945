//! Campaign files of a schedule: the first one, and the user's edits.

use camino::Utf8Path;
use cvc_core::campaign::{Spec, load_text};
use cvc_core::plan::{self, Plan};
use fastrand::Rng;
use std::{collections::BTreeSet, fmt::Write, fs};

/// A site of a campaign file.
#[derive(Clone)]
struct Site {
    name: String,
    nodes: Vec<String>,
    side_by_side: bool,
    base: &'static str,
}

/// The content of a campaign file, before it is written.
#[derive(Clone)]
struct Shape {
    sites: Vec<Site>,
    mappings: usize,
    repeats: u32,
    retries: u32,
}

/// A version of the campaign file.
pub(crate) struct Campaign {
    pub spec: Spec,
    pub plan: Plan,
    /// Description of the user's edit.
    pub edit: String,
    /// Sites whose directory or machine this edit changed.
    pub moved: BTreeSet<String>,
}

impl Shape {
    fn draw(rng: &mut Rng) -> Self {
        let mut sites = Vec::new();
        for name in ["alpha", "beta"].into_iter().take(rng.usize(1..3)) {
            let nodes: Vec<String> = (1..=rng.u32(1..4)).map(|n| format!("{name}{n}")).collect();
            let side_by_side = nodes.len() > 1 && rng.bool();
            sites.push(Site {
                name: name.to_owned(),
                nodes,
                side_by_side,
                base: "~/.cvc",
            });
        }
        let mappings = sites.iter().map(|site| site.nodes.len()).min().unwrap_or(1);
        let (repeats, retries) = (rng.u32(1..4), rng.u32(0..3));
        Self {
            sites,
            mappings,
            repeats,
            retries,
        }
    }

    /// Changes the content as a user might. Returns a description, and the sites whose directory or machine changed.
    fn edit(&mut self, chance: &mut Rng) -> (String, Vec<String>) {
        let number = chance.usize(0..self.sites.len());
        let count = self.sites.len();
        let site = &mut self.sites[number];
        let name = site.name.clone();
        match chance.u32(0..9) {
            0 | 1 => {
                self.repeats = if chance.bool() {
                    self.repeats + 1
                } else {
                    (self.repeats - 1).max(1)
                };
                (format!("repeats = {}", self.repeats), Vec::new())
            }
            2 | 3 => {
                site.name = name
                    .strip_suffix('x')
                    .map_or_else(|| format!("{name}x"), str::to_owned);
                (
                    format!("{name} is called {}", site.name),
                    vec![name, site.name.clone()],
                )
            }
            4 if site.nodes.len() > 1 => {
                site.nodes.rotate_left(1);
                (format!("{name} begins with {}", site.nodes[0]), vec![name])
            }
            4 => {
                site.nodes[0].push('b');
                (format!("{name} has {}", site.nodes[0]), vec![name])
            }
            5 => {
                site.base = if site.base == "~/.cvc" {
                    "~/other"
                } else {
                    "~/.cvc"
                };
                (format!("{name} has its files in {}", site.base), vec![name])
            }
            6 if count > 1 => {
                self.sites.remove(number);
                (format!("without {name}"), vec![name])
            }
            7 if self.mappings > 1 => {
                self.mappings -= 1;
                (format!("{} mappings", self.mappings), Vec::new())
            }
            _ => {
                self.retries = (self.retries + 1) % 3;
                (format!("retries = {}", self.retries), Vec::new())
            }
        }
    }

    fn text(&self) -> String {
        let mut text = "schema = 1\nname = \"simulated\"\n".to_owned();
        for Site {
            name,
            nodes,
            side_by_side,
            base,
        } in &self.sites
        {
            write!(
                text,
                "[sites.{name}]\nkind = \"ssh\"\nhosts = {nodes:?}\ncores = 4\nlost_after_s = 30\nside_by_side = {side_by_side}\nbase = {base:?}\n\
                 [sites.{name}.mpi.mpich]\nfamily = \"mpich\"\n"
            )
            .expect("text");
        }
        let mappings: Vec<String> = (1..=self.mappings)
            .map(|nodes| format!("{nodes}Nx2P"))
            .collect();
        let Self {
            repeats, retries, ..
        } = self;
        write!(
            text,
            "[matrix]\napp = \"app\"\nmapping = {mappings:?}\nmpi = \"mpich\"\n\
             [run]\nrepeats = {repeats}\nwarmups = 0\nretries = {retries}\ntimeout_s = 80\n"
        )
        .expect("text");
        text
    }

    fn campaign(&self, dir: &Utf8Path, edit: String, moved: BTreeSet<String>) -> Campaign {
        let (text, apps) = (self.text(), dir.join("apps"));
        let spec = load_text(
            dir.join("campaign.toml").as_std_path(),
            &text,
            &[apps.into_std_path_buf()],
        );
        let spec = spec.unwrap_or_else(|e| panic!("{e}\n{text}"));
        Campaign {
            plan: plan::build(&spec),
            spec,
            edit,
            moved,
        }
    }
}

/// The versions of the campaign file in their order, the sites of the first version with their nodes, and the head nodes of all versions.
pub(crate) struct Campaigns {
    pub files: Vec<Campaign>,
    pub sites: Vec<(String, Vec<String>)>,
    pub machines: Vec<String>,
}

impl Campaigns {
    /// Draws campaign files of random content: the first version from `rng`, the edits from `chance`.
    pub fn draw(rng: &mut Rng, chance: &mut Rng, dir: &Utf8Path) -> Self {
        let apps = dir.join("apps");
        let descriptor = "schema = 1\nname = \"app\"\ntitle = \"an application of the simulation\"\n[program]\nnames = [\"app\"]\n\
                          install = \"-\"\n[command]\nargs = []\n[workloads.any]\n[success]\npattern = '^SUCCESS'\n";
        fs::create_dir_all(&apps)
            .and_then(|()| fs::write(apps.join("app.toml"), descriptor))
            .expect("a descriptor");
        let mut shape = Shape::draw(rng);
        let sites: Vec<_> = shape
            .sites
            .iter()
            .map(|site| (site.name.clone(), site.nodes.clone()))
            .collect();
        let mut machines: BTreeSet<String> = shape
            .sites
            .iter()
            .map(|site| site.nodes[0].clone())
            .collect();
        let mut moved = BTreeSet::new();
        let mut files = vec![shape.campaign(dir, String::new(), moved.clone())];
        for _ in 0..chance.usize(0..4) {
            let (edit, sites) = shape.edit(chance);
            moved.extend(sites);
            machines.extend(shape.sites.iter().map(|site| site.nodes[0].clone()));
            files.push(shape.campaign(dir, edit, moved.clone()));
        }
        Self {
            files,
            sites,
            machines: machines.into_iter().collect(),
        }
    }
}
