//! A plan's graph as DOT, Mermaid and JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::dag::{Dag, Edge};
use crate::node::Class;
use crate::plan::{Plan, PlannedNode};

/// The graph in Graphviz's language, one cluster for each target. A dashed
/// arrow is an order without data, a dotted one reads whatever was left.
#[must_use]
pub fn dot(plan: &Plan, dag: &Dag) -> String {
    let mut text = format!("digraph {} {{\n  rankdir=LR;\n  node [shape=box];\n", quoted(&plan.name));
    for (group, nodes) in groups(plan) {
        let (open, close) = match group {
            Some(target) => {
                let label = quoted(target);
                (
                    format!("  subgraph {} {{\n    label={label};\n", quoted(&format!("cluster {target}"))),
                    "  }\n",
                )
            }
            None => (String::new(), ""),
        };
        text.push_str(&open);
        for node in nodes {
            let label = quoted(&format!("{}\n{}", node.name, node.kind.name()));
            let shape = if is_service(node) { ", style=rounded" } else { "" };
            let indent = if group.is_some() { "    " } else { "  " };
            let _ = writeln!(text, "{indent}{} [label={label}{shape}];", quoted(&node.name));
        }
        text.push_str(close);
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

/// The graph in Mermaid's language, one subgraph for each target.
#[must_use]
pub fn mermaid(plan: &Plan, dag: &Dag) -> String {
    let mut text = "flowchart LR\n".to_owned();
    let id = |name: &str| format!("n{}", plan.nodes.get_index_of(name).unwrap_or_default());
    for (group, nodes) in groups(plan) {
        if let Some(target) = group {
            let _ = writeln!(text, "  subgraph {target}[{}]", mermaid_text(target));
        }
        for node in nodes {
            let label = mermaid_text(&format!("{}: {}", node.name, node.kind.name()));
            let (open, close) = if is_service(node) { ("([", "])") } else { ("[", "]") };
            let indent = if group.is_some() { "    " } else { "  " };
            let _ = writeln!(text, "{indent}{}{open}{label}{close}", id(&node.name));
        }
        if group.is_some() {
            text.push_str("  end\n");
        }
    }
    for (from, to, edge) in edges(dag) {
        let arrow = if edge == Edge::Data { "-->" } else { "-.->" };
        let _ = writeln!(text, "  {} {arrow} {}", id(from), id(to));
    }
    text
}

/// The graph as nodes and edges, in the order in which nodes can run.
#[must_use]
pub fn json(plan: &Plan, dag: &Dag) -> Value {
    let nodes = dag.order().iter().filter_map(|name| plan.nodes.get(name)).map(|node| {
        json!({
            "name": node.name,
            "kind": node.kind.name(),
            "target": node.target,
            "service": is_service(node),
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

/// Nodes without a target, then those of each target.
fn groups(plan: &Plan) -> Vec<(Option<&str>, Vec<&PlannedNode>)> {
    let names = std::iter::once(None).chain(plan.targets.iter().map(|target| Some(target.name.as_str())));
    let of =
        |group: Option<&str>| plan.nodes.values().filter(|node| node.target.as_deref() == group).collect();
    names.map(|group| (group, of(group))).collect()
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
    fn dot_groups_targets_and_tells_the_edges_apart() {
        let (_dir, plan, dag) = small();
        insta::assert_snapshot!(dot(&plan, &dag), @r#"
        digraph "small" {
          rankdir=LR;
          node [shape=box];
          "host" [label="host\nprobe_host"];
          subgraph "cluster t" {
            label="t";
            "bundle[target=t]" [label="bundle[target=t]\nbuild_bundle"];
            "server[target=t]" [label="server[target=t]\nserve", style=rounded];
            "warm[target=t]" [label="warm[target=t]\nwarmup"];
          }
          "bundle[target=t]" -> "server[target=t]";
          "host" -> "warm[target=t]" [style=dashed];
          "server[target=t]" -> "warm[target=t]";
        }
        "#);
    }

    #[test]
    fn mermaid_names_every_node_and_edge() {
        let (_dir, plan, dag) = small();
        insta::assert_snapshot!(mermaid(&plan, &dag), @r#"
        flowchart LR
          n0["host: probe_host"]
          subgraph t["t"]
            n1["bundle[target=t]: build_bundle"]
            n2(["server[target=t]: serve"])
            n3["warm[target=t]: warmup"]
          end
          n1 --> n2
          n0 -.-> n3
          n2 --> n3
        "#);
    }

    #[test]
    fn json_lists_nodes_in_the_order_they_can_run() {
        let (_dir, plan, dag) = small();
        let graph = json(&plan, &dag);
        let names: Vec<_> =
            graph["nodes"].as_array().unwrap().iter().map(|node| node["name"].clone()).collect();
        let place = |name: &str| names.iter().position(|found| found == name).unwrap();
        assert!(place("bundle[target=t]") < place("server[target=t]"));
        assert!(place("server[target=t]") < place("warm[target=t]"));
        assert_eq!(graph["edges"].as_array().unwrap().len(), 3);
    }
}
