// SPDX-License-Identifier: MIT OR Apache-2.0
//! A matrix as people and CI systems read it. Names hold no character that a shell, YAML or
//! JSON would take for its own: the parsers of matrices, scenarios and sources see to that.

use std::fmt::Write;

use serde_json::{Value, json};
use serde_yaml::{Mapping, Value as Yaml};

use super::{Job, Matrix, Tag};
use crate::core::grid::table as grid;

/// The most jobs that one matrix of GitHub Actions may have.
const MOST_GITHUB: usize = 256;
/// The most jobs that one job of GitLab may need: "One job can only need 50 others"
/// (gitlab-org/gitlab, issue 419720).
const MOST_GITLAB: u32 = 50;

/// For people: a row an experiment, then what runs it.
pub fn table(matrix: &Matrix, tag: Option<Tag>, jobs: &[Job]) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for cell in matrix.tagged(tag) {
        let tags: Vec<_> = cell.tags.iter().map(Tag::to_string).collect();
        let row = vec![
            cell.scenario.clone(),
            cell.kernel.clone(),
            cell.clock.to_string(),
            cell.variant.clone(),
            tags.join(", "),
        ];
        let same = |r: &&mut Vec<String>| r[..3] == row[..3] && r[4] == row[4];
        match rows.iter_mut().find(same) {
            Some(earlier) => earlier[3] += &format!(", {}", cell.variant),
            None => rows.push(row),
        }
    }
    let cells = grid(&["scenario", "kernel", "clock", "variants", "tags"], rows);
    let runs = jobs.iter().map(|job| {
        let scenarios = job.scenarios.len().to_string();
        vec![job.run.clone(), scenarios, job.shards.to_string()]
    });
    let runs = grid(&["run", "scenarios", "shards"], runs.collect());
    format!("{cells}\n\n{runs}\n")
}

/// For scripts: a line a run, its name and into how many shards it is cut.
pub fn runs(jobs: &[Job]) -> String {
    let line = |job: &Job| format!("{} {}\n", job.run, job.shards);
    jobs.iter().map(line).collect()
}

/// `1/4`, `2/4` and so on, and what names the shard's run behind the run's own name.
fn shards(job: &Job) -> impl Iterator<Item = (String, String)> {
    let of = job.shards;
    (1..=of).map(move |k| (format!("{k}/{of}"), format!("{k}-of-{of}")))
}

/// `strategy.matrix` of GitHub Actions: a job a shard.
///
/// # Errors
/// There are more than it takes.
pub fn github(jobs: &[Job]) -> Result<String, String> {
    let mut include: Vec<Value> = Vec::new();
    for job in jobs {
        for (shard, suffix) in shards(job) {
            include.push(json!({
                "run": job.run,
                "kernel": job.kernel,
                "clock": job.clock,
                "args": job.words().join(" "),
                "shard": shard,
                "artifact": format!("{}.{suffix}", job.run),
            }));
        }
    }
    if include.len() > MOST_GITHUB {
        return Err(format!(
            "{} shards are more than the {MOST_GITHUB} jobs that a matrix of GitHub Actions takes: take fewer with --shards",
            include.len()
        ));
    }
    Ok(json!({"include": include}).to_string())
}

/// A child pipeline of GitLab: a job a shard, and one that merges them.
///
/// # Errors
/// A run is cut into more than its merging job may wait for.
pub fn gitlab(jobs: &[Job]) -> Result<String, String> {
    if let Some(job) = jobs.iter().find(|job| job.shards > MOST_GITLAB) {
        return Err(format!(
            "the {} shards of {} are more than the {MOST_GITLAB} jobs that a job of GitLab can need: take fewer with --shards",
            job.shards, job.run
        ));
    }
    let text = |s: &str| Yaml::String(s.into());
    let list = |items: &[String]| Yaml::Sequence(items.iter().map(|i| text(i)).collect());
    let map = |entries: Vec<(&str, Yaml)>| {
        let entries = entries.into_iter().map(|(k, v)| (text(k), v));
        Yaml::Mapping(entries.collect::<Mapping>())
    };
    let kept = |path: String| map(vec![("when", text("always")), ("paths", list(&[path]))]);
    let mut pipeline = Mapping::new();
    let stages = list(&["bench".into(), "merge".into()]);
    pipeline.insert(text("stages"), stages);
    for job in jobs {
        let run = format!("{}.$CI_PIPELINE_ID", job.run);
        let mut needs = Vec::new();
        for (shard, suffix) in shards(job) {
            let name = format!("{} {shard}", job.run);
            let bench = format!(
                "cargo xtask bench {} --run {run} --shard {shard} --yes",
                job.words().join(" ")
            );
            let body = map(vec![
                ("stage", text("bench")),
                ("script", list(&[bench])),
                ("artifacts", kept(format!("results/{run}.{suffix}/"))),
            ]);
            pipeline.insert(text(&name), body);
            needs.push(map(vec![("job", text(&name))]));
        }
        let merge = format!("cargo xtask merge {run}.*-of-{}", job.shards);
        let body = map(vec![
            ("stage", text("merge")),
            // A shard that failed is told by what merges them.
            ("when", text("always")),
            ("needs", Yaml::Sequence(needs)),
            ("script", list(&[merge])),
            ("artifacts", kept(format!("results/{run}/"))),
        ]);
        pipeline.insert(text(&format!("{} merged", job.run)), body);
    }
    serde_yaml::to_string(&Yaml::Mapping(pipeline)).map_err(|e| e.to_string())
}

/// A job array of Slurm: a task a shard. A task that is requeued goes on with its own run.
pub fn slurm(jobs: &[Job], tag: Option<Tag>) -> String {
    let all: Vec<_> = jobs
        .iter()
        .flat_map(|job| shards(job).map(move |(shard, _)| (job, shard)))
        .collect();
    let tag = tag.map_or("matrix".into(), |t| t.to_string());
    let count = all.len();
    let mut out = format!(
        r#"#!/usr/bin/env bash
#SBATCH --job-name=bootrig-{tag}
#SBATCH --array=1-{count}
#SBATCH --requeue
#SBATCH --open-mode=append
# sbatch THIS, in the checkout; a task is one shard, and one that is requeued goes on with its
# run. When the array is over, bash THIS merge JOB joins the shards of array job JOB.
# BOOTRIG_RESULTS: where runs are kept, seen by all nodes. BOOTRIG_XTASK: a built xtask, where
# nodes have no cargo.
set -euo pipefail
results=${{BOOTRIG_RESULTS:-results}}
xtask() {{
    if [ -n "${{BOOTRIG_XTASK:-}}" ]; then "$BOOTRIG_XTASK" "$@"; else cargo xtask "$@"; fi
}}
if [ "${{1:-}}" = merge ]; then
    job=${{2:?the number of the array job}}
    status=0
"#
    );
    for job in jobs {
        let (run, of) = (&job.run, job.shards);
        let _ = writeln!(
            out,
            r#"    xtask merge "$results/{run}.$job."*-of-{of} --results "$results" || status=$?"#
        );
    }
    out += "    exit $status\nfi\ncase $SLURM_ARRAY_TASK_ID in\n";
    for (task, (job, shard)) in all.iter().enumerate() {
        let words = job.words().join(" ");
        let _ = writeln!(
            out,
            r#"    {}) set -- {words} --run "{}.$SLURM_ARRAY_JOB_ID" --shard {shard} ;;"#,
            task + 1,
            job.run
        );
    }
    out += r#"    *) echo "there is no shard $SLURM_ARRAY_TASK_ID" >&2; exit 2 ;;
esac
xtask bench "$@" --results "$results"
"#;
    out
}
