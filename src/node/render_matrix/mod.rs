//! Renders the coverage matrix, with every evidence document beside it.

mod categories;
mod cells;
mod columns;
mod measurements;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Artifact, Class, Context, Failure, Node, Produced, SubjectInputs};
use crate::evidence::matrix::Matrix;
use crate::matrix;

/// Renders the coverage matrix of all subjects of the plan, finished or not,
/// as Markdown, CSV, JSON and HTML, with the evidence that each cell links to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenderMatrix {
    /// The heading.
    pub title: String,
    /// What the matrix shows, in a sentence or two.
    #[serde(default)]
    pub description: String,
}

impl Node for RenderMatrix {
    const KIND: &'static str = "render_matrix";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Content;
    const OUTPUTS: &'static [(&'static str, &'static str)] = &[("report", "the directory of the report")];
    const EXAMPLE: &'static str = "\
matrix:
  render_matrix:
    title: Smoke test
    description: What was sent, beside what the server did.
";
    type Evidence = Matrix;

    fn key_settings(&self, _: &Context) -> Result<Value, Failure> {
        let columns = columns::columns();
        Ok(json!({"settings": self, "templates": matrix::templates_digest(), "columns": columns}))
    }

    fn reads_subjects(&self) -> bool {
        true
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        let report = context.work.join("report");
        let unwritable =
            |error: std::io::Error| Failure::environment(format!("the report cannot be written: {error}"));
        let mut rows = Vec::new();
        for subject in &context.subjects {
            let links = write_evidence(context, subject, &report)?;
            let measurements = measurements::measurements(subject, context.store())?;
            rows.push(columns::row(subject, &subject.read(context.store()), &links, measurements));
        }
        let matrix = Matrix {
            schema_version: 1,
            plan: self.title.clone(),
            description: self.description.clone(),
            columns: columns::columns(),
            rows,
        };
        let rendered = matrix::render(&matrix).map_err(|error| Failure::failed(error.to_string()))?;
        for (name, text) in [
            ("coverage.md", rendered.markdown),
            ("coverage.csv", rendered.csv),
            ("coverage.json", rendered.json),
            ("coverage.html", rendered.html),
        ] {
            std::fs::create_dir_all(&report).map_err(unwritable)?;
            std::fs::write(report.join(name), text).map_err(unwritable)?;
        }
        let tree = context.store().put_tree(&report)?;
        Produced::new(&matrix, [("report", Artifact::Tree(tree))])
    }
}

/// Puts each evidence document of a subject below the report and returns the
/// path of each, by role.
fn write_evidence(
    context: &Context,
    subject: &SubjectInputs,
    report: &std::path::Path,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut links = BTreeMap::new();
    for (role, (_, record)) in &subject.roles {
        let Some(digest) = record.evidence else { continue };
        let link = format!("evidence/{}/{role}.json", subject.name);
        let path = report.join(&link);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|error| Failure::environment(format!("the report cannot be written: {error}")))?;
        }
        std::fs::write(&path, context.store().get_bytes(digest)?)
            .map_err(|error| Failure::environment(format!("the report cannot be written: {error}")))?;
        links.insert(role.clone(), link);
    }
    Ok(links)
}
