//! Which source file of a crate uses which.
//!
//! A file uses another if a path in its code, or in a macro that it calls or declares, names an
//! item of the other. Names are followed through `use` and `pub use` to the file that declares the
//! item, so that users of a facade count as users of the file behind it. `mod child;` alone is not
//! use, and tests (`#[cfg(test)]`) do not count.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, TraitItem, UseTree};

use crate::circles::Graph;

/// The sources of a crate: path below `src`, text.
pub type Sources = BTreeMap<String, String>;

type Name = Vec<String>;

/// A module: where its code is, and what its scope contains.
#[derive(Default)]
struct Module {
    file: String,
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    uses: BTreeMap<String, Name>,
    globs: Vec<Name>,
    /// Every path in its code.
    paths: Vec<Name>,
}

/// The graph of the files of the crate whose root is `root`.
pub fn files(sources: &Sources, root: &str) -> Graph {
    let mut modules = BTreeMap::new();
    read(sources, &mut modules, vec![], root);
    let mut graph: Graph = modules
        .values()
        .map(|module| (module.file.clone(), BTreeSet::new()))
        .collect();
    for (name, module) in &modules {
        // A glob import counts where a path names one of its items.
        let named = module.paths.iter();
        let used = named.filter_map(|path| resolve(&modules, name, path, 0)?.1);
        let edges: Vec<String> = used.filter(|file| *file != module.file).collect();
        graph.entry(module.file.clone()).or_default().extend(edges);
    }
    graph
}

fn read(sources: &Sources, modules: &mut BTreeMap<Name, Module>, name: Name, file: &str) {
    let text = sources
        .get(file)
        .unwrap_or_else(|| panic!("no file {file}"));
    let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    fill(sources, modules, name, file, &parsed.items);
}

fn fill(
    sources: &Sources,
    modules: &mut BTreeMap<Name, Module>,
    name: Name,
    file: &str,
    items: &[Item],
) {
    let mut module = Module {
        file: file.into(),
        ..Module::default()
    };
    for item in items.iter().filter(|item| !is_test(attributes(item))) {
        match item {
            Item::Mod(child) => {
                let mut path = name.clone();
                path.push(child.ident.to_string());
                module.children.insert(child.ident.to_string());
                match &child.content {
                    Some((_, items)) => fill(sources, modules, path, file, items),
                    None => {
                        let file = child_file(sources, file, &child.ident.to_string());
                        read(sources, modules, path, &file);
                    }
                }
            }
            Item::Use(import) if import.leading_colon.is_some() => {}
            Item::Use(import) => flatten(&import.tree, &mut vec![], &mut module),
            _ => {
                module.items.extend(declared(item));
                module.visit_item(item);
            }
        }
    }
    modules.insert(name, module);
}

/// `child.rs` or `child/mod.rs`, in the folder of the module that `file` is.
fn child_file(sources: &Sources, file: &str, child: &str) -> String {
    let (folder, base) = file.rsplit_once('/').unwrap_or(("", file));
    let own = match base {
        "lib.rs" | "main.rs" | "mod.rs" => String::from(folder),
        _ => format!("{folder}/{}", base.trim_end_matches(".rs")),
    };
    [format!("{own}/{child}.rs"), format!("{own}/{child}/mod.rs")]
        .iter()
        .map(|path| String::from(path.trim_start_matches('/')))
        .find(|path| sources.contains_key(path))
        .unwrap_or_else(|| panic!("{file}: no file for mod {child}"))
}

fn flatten(tree: &UseTree, prefix: &mut Name, module: &mut Module) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, module);
            prefix.pop();
        }
        UseTree::Name(name) => import(prefix, &name.ident.to_string(), None, module),
        UseTree::Rename(rename) => {
            import(
                prefix,
                &rename.ident.to_string(),
                Some(rename.rename.to_string()),
                module,
            );
        }
        UseTree::Glob(_) => module.globs.push(prefix.clone()),
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|tree| flatten(tree, prefix, module)),
    }
}

fn import(prefix: &Name, name: &str, alias: Option<String>, module: &mut Module) {
    let mut path = prefix.clone();
    if name != "self" {
        path.push(name.into());
    }
    let visible = alias.or_else(|| path.last().cloned()).unwrap_or_default();
    // Names hidden by `as _` are used nevertheless.
    module.paths.push(path.clone());
    module.uses.insert(visible, path);
}

/// The module that `path`, seen from `from`, names, and the file of the item if it names one.
fn resolve(
    modules: &BTreeMap<Name, Module>,
    from: &Name,
    path: &Name,
    depth: u32,
) -> Option<(Name, Option<String>)> {
    let mut at = from.clone();
    for segment in path {
        match segment.as_str() {
            "crate" => at = vec![],
            "self" => {}
            "super" => {
                at.pop()?;
            }
            name => match look_up(modules, &at, name, depth)? {
                (module, None) => at = module,
                item => return Some(item),
            },
        }
    }
    Some((at, None))
}

fn look_up(
    modules: &BTreeMap<Name, Module>,
    at: &Name,
    name: &str,
    depth: u32,
) -> Option<(Name, Option<String>)> {
    let module = modules.get(at).filter(|_| depth < 16)?;
    if module.items.contains(name) {
        return Some((at.clone(), Some(module.file.clone())));
    }
    if module.children.contains(name) {
        let mut child = at.clone();
        child.push(name.into());
        return Some((child, None));
    }
    let through = |path: &Name| resolve(modules, at, path, depth + 1);
    if let Some(path) = module.uses.get(name).filter(|path| *path != &[name]) {
        return through(path);
    }
    module.globs.iter().find_map(|path| {
        let (target, item) = through(path)?;
        if item.is_some() || target == *at {
            None
        } else {
            look_up(modules, &target, name, depth + 1)
        }
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn declared(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// `#[cfg(test)]`, alone or with other conditions.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return false;
        };
        let words: Vec<String> = list
            .tokens
            .to_string()
            .split(|c: char| !c.is_alphanumeric())
            .map(String::from)
            .collect();
        list.path.is_ident("cfg")
            && words.contains(&"test".into())
            && !words.contains(&"not".into())
    })
}

impl Module {
    /// Names in a macro's tokens: paths of two segments or more, and the items that the macro
    /// declares (`enum State { .. }`).
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Name = vec![];
        let mut before = String::new();
        let mut colons = 0;
        for token in tokens {
            match &token {
                TokenTree::Ident(ident) => {
                    let ident = ident.to_string();
                    if colons != 2 {
                        self.end(&mut path);
                    }
                    if matches!(before.as_str(), "enum" | "struct" | "trait" | "type" | "fn") {
                        self.items.insert(ident.clone());
                    }
                    path.push(ident.clone());
                    (before, colons) = (ident, 0);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.end(&mut path);
                    (before, colons) = (String::new(), 0);
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end(&mut path);
    }

    fn end(&mut self, path: &mut Name) {
        if path.len() > 1 {
            self.paths.push(path.clone());
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_some() {
            return;
        }
        let segments = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string());
        self.paths.push(segments.collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    /// A `use` within a function counts as one of the module, unless the name has another meaning
    /// there.
    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        let mut inner = Self::default();
        flatten(&import.tree, &mut vec![], &mut inner);
        self.paths.extend(inner.paths);
        self.globs.extend(inner.globs);
        for (name, path) in inner.uses {
            self.uses.entry(name).or_insert(path);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let test = match item {
            ImplItem::Fn(item) => is_test(&item.attrs),
            ImplItem::Const(item) => is_test(&item.attrs),
            _ => false,
        };
        if !test {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        if !matches!(item, TraitItem::Fn(item) if is_test(&item.attrs)) {
            visit::visit_trait_item(self, item);
        }
    }
}
