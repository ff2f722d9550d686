//! A plan's graph as DOT, Mermaid and JSON.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::dag::{Dag, Edge};
use crate::node::Class;
use crate::plan::{Plan, PlannedNode};

/// Graphviz attributes of a node whose result is in the store.
const DOT_CACHED: &str = ", style=filled, fillcolor=\"#d9f2d9\"";
/// The same in Mermaid's language.
const MERMAID_CACHED: &str = "  classDef cached fill:#d9f2d9,stroke:#2e7d32\n";

/// The graph in Graphviz's language: one cluster for each target, one within
/// for each server with the nodes that use it, and what is in the store in
/// green. A dashed arrow is an order without data, a dotted one reads whatever
/// was left.
#[must_use]
pub fn dot(plan: &Plan, dag: &Dag, cached: &BTreeSet<&str>) -> String {
    let mut text = format!("digraph {} {{\n  rankdir=LR;\n  node [shape=box];\n", quoted(&plan.name));
    let line = |node: &PlannedNode| {
        let label = quoted(&format!("{}\n{}", node.name, node.kind.name()));
        let shape = match (is_service(node), cached.contains(node.name.as_str())) {
            (true, _) => ", style=rounded",
            (false, true) => DOT_CACHED,
            (false, false) => "",
        };
        format!("{} [label={label}{shape}];", quoted(&node.name))
    };
    let open = |_: usize, id: &str, label: &str| {
        format!("subgraph {} {{\n  label={};", quoted(&format!("cluster {id}")), quoted(label))
    };
    for group in groups(plan, dag) {
        write_group(&mut text, &group, 1, &line, &open, "}");
    }
    for (from, to, edge) in edges(dag) {
        let style = match edge {
            Edge::Data => "",
            Edge::Order => " [style=dashed]",
            Edge::Any => " [style=dotted]",
        };
        let _ = writeln!(text, "  {} -> {}{style};", quoted(from), quoted(to));
    }
    text + "}\n"
}

/// The graph in Mermaid's language, with the subgraphs and the green of
/// [`dot`].
#[must_use]
pub fn mermaid(plan: &Plan, dag: &Dag, cached: &BTreeSet<&str>) -> String {
    let mut text = "flowchart LR\n".to_owned();
    let id = |name: &str| format!("n{}", plan.nodes.get_index_of(name).unwrap_or_default());
    let line = |node: &PlannedNode| {
        let label = mermaid_text(&format!("{}: {}", node.name, node.kind.name()));
        let (open, close) = if is_service(node) { ("([", "])") } else { ("[", "]") };
        format!("{}{open}{label}{close}", id(&node.name))
    };
    let open = |depth: usize, name: &str, label: &str| {
        let name = if depth == 1 { name.to_owned() } else { format!("while_{}", id(name)) };
        format!("subgraph {name}[{}]", mermaid_text(label))
    };
    for group in groups(plan, dag) {
        write_group(&mut text, &group, 1, &line, &open, "end");
    }
    for (from, to, edge) in edges(dag) {
        let arrow = if edge == Edge::Data { "-->" } else { "-.->" };
        let _ = writeln!(text, "  {} {arrow} {}", id(from), id(to));
    }
    let cached: Vec<String> =
        plan.nodes.keys().filter(|name| cached.contains(name.as_str())).map(|name| id(name)).collect();
    if !cached.is_empty() {
        let _ = writeln!(text, "{MERMAID_CACHED}  class {} cached", cached.join(","));
    }
    text
}

/// The graph as nodes and edges, in the order in which nodes can run.
#[must_use]
pub fn json(plan: &Plan, dag: &Dag, cached: &BTreeSet<&str>) -> Value {
    let nodes = dag.order().iter().filter_map(|name| plan.nodes.get(name)).map(|node| {
        json!({
            "name": node.name,
            "kind": node.kind.name(),
            "target": node.target,
            "service": is_service(node),
            "cached": cached.contains(node.name.as_str()),
        })
    });
    let edges = edges(dag).into_iter().map(|(from, to, edge)| {
        let why = match edge {
            Edge::Data => "data",
            Edge::Order => "order",
            Edge::Any => "whatever-was-left",
        };
        json!({"from": from, "to": to, "why": why})
    });
    json!({"plan": plan.name, "nodes": nodes.collect::<Value>(), "edges": edges.collect::<Value>()})
}

/// Nodes that are drawn together, and groups within.
struct Group<'a> {
    /// What it is of and its label; the nodes without a target have none.
    frame: Option<(&'a str, String)>,
    nodes: Vec<&'a PlannedNode>,
    within: Vec<Group<'a>>,
}

/// Nodes without a target, then those of each target, each server with the
/// nodes that use it. A node that uses several is drawn with the first.
fn groups<'a>(plan: &'a Plan, dag: &'a Dag) -> Vec<Group<'a>> {
    let names = std::iter::once(None).chain(plan.targets.iter().map(|target| Some(target.name.as_str())));
    let of = |target: Option<&'a str>| {
        let own = || plan.nodes.values().filter(move |node| node.target.as_deref() == target);
        let mut nodes: Vec<&PlannedNode> = own().collect();
        let within = own().filter(|node| is_service(node)).map(|service| {
            let (together, others) = std::mem::take(&mut nodes)
                .into_iter()
                .partition(|node| node.name == service.name || uses(dag, &node.name, &service.name));
            nodes = others;
            let label = format!("while {} runs", service.name);
            Group { frame: Some((&service.name, label)), nodes: together, within: Vec::new() }
        });
        let within: Vec<_> = within.filter(|group| !group.nodes.is_empty()).collect();
        Group { frame: target.map(|target| (target, target.to_owned())), nodes, within }
    };
    names.map(of).collect()
}

fn uses(dag: &Dag, node: &str, service: &str) -> bool {
    dag.dependencies(node).any(|(dependency, edge)| dependency == service && edge == Edge::Data)
}

/// Writes a group and those within, each level two spaces further in.
fn write_group(
    text: &mut String,
    group: &Group<'_>,
    depth: usize,
    line: &impl Fn(&PlannedNode) -> String,
    open: &impl Fn(usize, &str, &str) -> String,
    close: &str,
) {
    let indent = "  ".repeat(depth);
    let inner = if group.frame.is_some() { depth + 1 } else { depth };
    if let Some((id, label)) = &group.frame {
        for line in open(depth, id, label).lines() {
            let _ = writeln!(text, "{indent}{line}");
        }
    }
    for node in &group.nodes {
        let _ = writeln!(text, "{}{}", "  ".repeat(inner), line(node));
    }
    for group in &group.within {
        write_group(text, group, inner, line, open, close);
    }
    if group.frame.is_some() {
        let _ = writeln!(text, "{indent}{close}");
    }
}

fn edges(dag: &Dag) -> Vec<(&str, &str, Edge)> {
    let mut edges: Vec<_> = dag
        .order()
        .iter()
        .flat_map(|to| dag.dependencies(to).map(move |(from, edge)| (from, to.as_str(), edge)))
        .collect();
    edges.sort_unstable();
    edges
}

fn is_service(node: &PlannedNode) -> bool {
    node.kind.class() == Class::Service
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn mermaid_text(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "#quot;"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::{Given, load};

    fn small() -> (tempfile::TempDir, Plan, Dag) {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write(
            "plan.yaml",
            "orchestrate: 1\nname: small\ntargets: [t.yaml]\nnodes:\n  host: {probe_host: {}}\n  \
             warm:\n    warmup: {server: '${nodes.server}', requests: 1}\n    needs: [host]\n",
        );
        write(
            "t.yaml",
            "orchestrate: 1\ntarget: t\nnodes:\n  bundle:\n    build_bundle:\n      engine: {llama_cpp: \
             {precision: F16, context_length: 64}}\n  server:\n    serve: {bundle: '${nodes.bundle}', \
             model_name: m}\n",
        );
        let plan = load(&Path::new(dir.path()).join("plan.yaml"), &Given::default()).unwrap();
        let dag = Dag::new(&plan).unwrap();
        (dir, plan, dag)
    }

    #[test]
    fn dot_groups_targets_and_servers_and_shows_what_is_in_the_store() {
        let (_dir, plan, dag) = small();
        insta::assert_snapshot!(dot(&plan, &dag, &BTreeSet::from(["host"])), @r##"
        digraph "small" {
          rankdir=LR;
          node [shape=box];
          "host" [label="host\nprobe_host", style=filled, fillcolor="#d9f2d9"];
          subgraph "cluster t" {
            label="t";
            "bundle[target=t]" [label="bundle[target=t]\nbuild_bundle"];
            subgraph "cluster server[target=t]" {
              label="while server[target=t] runs";
              "server[target=t]" [label="server[target=t]\nserve", style=rounded];
              "warm[target=t]" [label="warm[target=t]\nwarmup"];
            }
          }
          "bundle[target=t]" -> "server[target=t]";
          "host" -> "warm[target=t]" [style=dashed];
          "server[target=t]" -> "warm[target=t]";
        }
        "##);
    }

    #[test]
    fn mermaid_names_every_node_and_edge_in_the_same_groups() {
        let (_dir, plan, dag) = small();
        insta::assert_snapshot!(mermaid(&plan, &dag, &BTreeSet::from(["host", "bundle[target=t]"])), @r#"
        flowchart LR
          n0["host: probe_host"]
          subgraph t["t"]
            n1["bundle[target=t]: build_bundle"]
            subgraph while_n2["while server[target=t] runs"]
              n2(["server[target=t]: serve"])
              n3["warm[target=t]: warmup"]
            end
          end
          n1 --> n2
          n0 -.-> n3
          n2 --> n3
          classDef cached fill:#d9f2d9,stroke:#2e7d32
          class n0,n1 cached
        "#);
    }

    #[test]
    fn json_lists_nodes_in_the_order_they_can_run() {
        let (_dir, plan, dag) = small();
        let graph = super::json(&plan, &dag, &BTreeSet::from(["host"]));
        let names: Vec<_> =
            graph["nodes"].as_array().unwrap().iter().map(|node| node["name"].clone()).collect();
        let place = |name: &str| names.iter().position(|found| found == name).unwrap();
        assert!(place("bundle[target=t]") < place("server[target=t]"));
        assert!(place("server[target=t]") < place("warm[target=t]"));
        assert_eq!(graph["edges"].as_array().unwrap().len(), 3);
        let cached = |name: &str| graph["nodes"][place(name)]["cached"].clone();
        assert_eq!((cached("host"), cached("bundle[target=t]")), (json!(true), json!(false)));
    }
}
