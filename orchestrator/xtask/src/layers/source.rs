//! Parses the modules of a crate: what each defines, imports and mentions.

use proc_macro2::{TokenStream, TokenTree};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};
use syn::{
    Attribute, Item, UseTree, Visibility,
    visit::{self, Visit},
};

/// The modules of one target; the first is its root.
#[derive(Debug, Default)]
pub struct Tree {
    /// All modules, parents before children.
    pub modules: Vec<Module>,
}

/// A module: a file, or an inline module.
#[derive(Debug, Default)]
pub struct Module {
    /// Its name; that of the root is `crate`.
    pub name: String,
    /// The file that contains it.
    pub file: PathBuf,
    /// Lines of that file; 0 for an inline module.
    pub lines: usize,
    /// Whether it is written inline in the file of its parent.
    pub inline: bool,
    /// Its parent module.
    pub parent: Option<usize>,
    /// Its child modules, by name.
    pub children: BTreeMap<String, usize>,
    /// Names of the items that it defines.
    pub defined: BTreeSet<String>,
    /// Its imports.
    pub imports: Vec<Import>,
    /// Paths in its code.
    pub mentions: Vec<Mention>,
    /// Names of local variables and parameters, which shadow imported functions.
    pub locals: BTreeSet<String>,
}

/// A leaf of a `use`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The imported path; for a glob, the path of the module.
    pub path: Vec<String>,
    /// The local name; `None` for a glob.
    pub name: Option<String>,
    /// Whether it is a re-export (`pub use`, of any visibility).
    pub public: bool,
    /// Line in the file.
    pub line: usize,
}

/// A path in an expression, a type, a macro call or an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Its segments.
    pub path: Vec<String>,
    /// Line in the file.
    pub line: usize,
}

/// Reads a file; `None` if it does not exist.
pub type Reader<'a> = dyn Fn(&Path) -> Option<String> + 'a;

/// Parses a target, starting from its root file.
pub fn tree(root: &Path, read: &Reader) -> Result<Tree, String> {
    let mut tree = Tree::default();
    let dir = root.parent().unwrap_or(Path::new("")).to_path_buf();
    file(&mut tree, root.to_path_buf(), &dir, "crate", None, read)?;
    Ok(tree)
}

/// Adds the module of a file. `dir` is the directory of its children.
fn file(
    tree: &mut Tree,
    path: PathBuf,
    dir: &Path,
    name: &str,
    parent: Option<usize>,
    read: &Reader,
) -> Result<usize, String> {
    let text = read(&path).ok_or_else(|| format!("{}: cannot be read", path.display()))?;
    let parsed = syn::parse_file(&text)
        .map_err(|e| format!("{}:{}: {e}", path.display(), e.span().start().line))?;
    let index = tree.modules.len();
    tree.modules.push(Module {
        name: name.to_owned(),
        file: path,
        lines: text.lines().count(),
        parent,
        ..Module::default()
    });
    items(tree, index, dir, &parsed.items, read)?;
    Ok(index)
}

fn items(
    tree: &mut Tree,
    index: usize,
    dir: &Path,
    items: &[Item],
    read: &Reader,
) -> Result<(), String> {
    for item in items.iter().filter(|item| !is_test(attributes(item))) {
        let Item::Mod(module) = item else {
            let mut visitor = Visitor {
                module: &mut tree.modules[index],
                nested: false,
            };
            visitor.visit_item(item);
            continue;
        };
        let name = plain(&module.ident);
        let below = dir.join(&name);
        let child = match &module.content {
            Some((_, content)) => {
                let child = tree.modules.len();
                let file = tree.modules[index].file.clone();
                tree.modules.push(Module {
                    name: name.clone(),
                    file,
                    inline: true,
                    parent: Some(index),
                    ..Module::default()
                });
                self::items(tree, child, &below, content, read)?;
                child
            }
            None => {
                let (path, dir) = match named_path(&module.attrs) {
                    Some(path) => {
                        let path = tree.modules[index]
                            .file
                            .parent()
                            .unwrap_or(Path::new(""))
                            .join(path);
                        let dir = path.parent().unwrap_or(Path::new("")).to_path_buf();
                        (path, dir)
                    }
                    None => {
                        let flat = dir.join(format!("{name}.rs"));
                        (
                            if read(&flat).is_some() {
                                flat
                            } else {
                                below.join("mod.rs")
                            },
                            below,
                        )
                    }
                };
                file(tree, path, &dir, &name, Some(index), read)?
            }
        };
        tree.modules[index].children.insert(name, child);
    }
    Ok(())
}

/// Returns the file named by `#[path = "…"]`.
fn named_path(attributes: &[Attribute]) -> Option<String> {
    attributes
        .iter()
        .find(|a| a.path().is_ident("path"))
        .and_then(|a| match &a.meta {
            syn::Meta::NameValue(syn::MetaNameValue {
                value:
                    syn::Expr::Lit(syn::ExprLit {
                        lit: syn::Lit::Str(path),
                        ..
                    }),
                ..
            }) => Some(path.value()),
            _ => None,
        })
}

/// Tells whether the attributes restrict an item to tests.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("test")
            || a.path().is_ident("cfg")
                && a.parse_args::<syn::Meta>()
                    .is_ok_and(|condition| needs_test(&condition))
    })
}

/// Tells whether a `cfg` predicate holds only in tests.
fn needs_test(condition: &syn::Meta) -> bool {
    match condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(
                syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated,
            )
            .is_ok_and(|parts| parts.iter().any(needs_test)),
        _ => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::TraitAlias(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// Returns the name that an item defines in its module.
fn defines(item: &Item) -> Option<String> {
    Some(plain(match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Macro(i) => i.ident.as_ref()?,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::TraitAlias(i) => &i.ident,
        Item::Type(i) => &i.ident,
        Item::Union(i) => &i.ident,
        _ => return None,
    }))
}

/// Returns an identifier without `r#`.
fn plain(ident: &syn::Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map_or(name.clone(), str::to_owned)
}

/// Collects the imports, definitions and mentions of an item.
struct Visitor<'a> {
    module: &'a mut Module,
    /// Whether the current item is inside another item.
    nested: bool,
}

impl Visitor<'_> {
    fn import(&mut self, prefix: &[String], tree: &UseTree, public: bool) {
        let line = match tree {
            UseTree::Path(part) => part.ident.span(),
            UseTree::Name(name) => name.ident.span(),
            UseTree::Rename(name) => name.ident.span(),
            UseTree::Glob(glob) => glob.star_token.spans[0],
            UseTree::Group(group) => group.brace_token.span.open(),
        };
        let line = line.start().line;
        let mut path = prefix.to_vec();
        let mut leaf = |path, name| {
            self.module.imports.push(Import {
                path,
                name,
                public,
                line,
            })
        };
        match tree {
            UseTree::Path(part) => {
                path.push(plain(&part.ident));
                self.import(&path, &part.tree, public);
            }
            UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|tree| self.import(prefix, tree, public)),
            UseTree::Glob(_) => leaf(path, None),
            UseTree::Name(name) => {
                let name = plain(&name.ident);
                if name == "self" {
                    let name = path.last().cloned();
                    leaf(path, name);
                } else {
                    path.push(name.clone());
                    leaf(path, Some(name));
                }
            }
            UseTree::Rename(name) => {
                if name.ident != "self" {
                    path.push(plain(&name.ident));
                }
                leaf(path, Some(plain(&name.rename)));
            }
        }
    }

    fn mention(&mut self, path: Vec<String>, line: usize) {
        self.module.mentions.push(Mention { path, line });
    }

    /// Collects the paths among the tokens of a macro call, or of an attribute whose strings may be paths.
    fn tokens(&mut self, tokens: TokenStream, strings: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let colon =
            |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == ':');
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let line = token.span().start().line;
            at += 1;
            match token {
                TokenTree::Group(group) => self.tokens(group.stream(), strings),
                TokenTree::Ident(ident) => {
                    // a word after `::` or `.` does not start a path in this crate; one after a single `:` is a type
                    let before = at.checked_sub(2);
                    let rooted = before.is_some_and(|b| matches!(&tokens[b], TokenTree::Punct(p) if matches!(p.as_char(), ':' | '.')));
                    let single = before.is_some_and(
                        |b| matches!(&tokens[b], TokenTree::Punct(p) if p.as_char() == ':'),
                    ) && !before.is_some_and(|b| b > 0 && colon(b - 1));
                    let mut path = vec![plain(ident)];
                    while colon(at) && colon(at + 1) {
                        let Some(TokenTree::Ident(next)) = tokens.get(at + 2) else {
                            break;
                        };
                        path.push(plain(next));
                        at += 3;
                    }
                    // a single lower-case word is usually a variable or a keyword, unless it is called
                    let called = matches!(tokens.get(at), Some(TokenTree::Group(_)));
                    if (!rooted || single)
                        && (path.len() > 1 || called || path[0].starts_with(char::is_uppercase))
                    {
                        self.mention(path, line);
                    }
                }
                TokenTree::Literal(literal) if strings => {
                    if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string())
                        && let Ok(path) = text.parse::<syn::Path>()
                        && path.segments.len() > 1
                    {
                        self.mention(
                            path.segments.iter().map(|s| plain(&s.ident)).collect(),
                            line,
                        );
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test(attributes(item)) {
            return;
        }
        if let (false, Some(name)) = (self.nested, defines(item)) {
            self.module.defined.insert(name);
        }
        let nested = std::mem::replace(&mut self.nested, true);
        visit::visit_item(self, item);
        self.nested = nested;
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes: &[Attribute] = match item {
            syn::ImplItem::Const(i) => &i.attrs,
            syn::ImplItem::Fn(i) => &i.attrs,
            syn::ImplItem::Type(i) => &i.attrs,
            syn::ImplItem::Macro(i) => &i.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // `use ::name` imports from another crate
        if item.leading_colon.is_none() {
            self.import(&[], &item.tree, !matches!(item.vis, Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let (None, Some(first)) = (&path.leading_colon, path.segments.first()) {
            let line = first.ident.span().start().line;
            self.mention(
                path.segments.iter().map(|s| plain(&s.ident)).collect(),
                line,
            );
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {
        // `pub(in path)` is not a dependency
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.module.locals.insert(plain(&pattern.ident));
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone(), false);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        self.visit_macro(&item.mac);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        match &attribute.meta {
            syn::Meta::List(list) => self.tokens(
                list.tokens.clone(),
                list.path.is_ident("serde") || list.path.is_ident("schemars"),
            ),
            syn::Meta::Path(path) => self.visit_path(path),
            syn::Meta::NameValue(_) => {}
        }
    }
}
