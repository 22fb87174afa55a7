// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bisect`: which commit, patch, source, option or word made it worse, or better.

mod over;
mod proofs;
mod session;

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Result;
use over::Over;
use session::Session;

use crate::{
    core::{
        fault::{Exit, Fault, Stopped, exit_of},
        scenario::Scenario,
        search::{Ended, Question, Report, Sought, search},
    },
    edge::{
        cache::Cache, files::write_whole, host::fingerprint::Fingerprint, qemu::shell_quote,
        terminal,
    },
    rig::{
        self, checkout, known,
        places::{Asked, Booth},
    },
};

/// Options of `bisect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    asked: Asked,
    /// Over the commits of this kernel tree, a git repository.
    #[arg(long, value_name = "DIR", requires = "good", requires = "bad")]
    tree: Option<PathBuf>,
    /// The commit that is good; the older one, unless --fixed is given.
    #[arg(long, value_name = "REV", requires = "tree")]
    good: Option<String>,
    /// The commit that is bad; the newer one, unless --fixed is given.
    #[arg(long, value_name = "REV", requires = "tree")]
    bad: Option<String>,
    /// Over the patches of the variant's series, or of --series: which of them?
    #[arg(long)]
    patches: bool,
    /// Over these keys of images/kernels/sources.yaml, the oldest first.
    #[arg(long, value_name = "KERNEL", num_args = 1.., value_delimiter = ',')]
    sources: Vec<String>,
    /// Over these configuration options (CONFIG_X=y), added one after another.
    #[arg(long, value_name = "OPTION", num_args = 1.., value_delimiter = ',')]
    options: Vec<String>,
    /// Over these words of the kernel's command line, added one after another.
    #[arg(long, value_name = "WORD", num_args = 1.., allow_hyphen_values = false)]
    words: Vec<String>,
    /// Look for what made it better: the old end is the bad one.
    #[arg(long)]
    fixed: bool,
    /// Go on with a stopped search (its folder, or its name in results/).
    #[arg(long, value_name = "SEARCH")]
    resume: Option<String>,
    /// Print one JSON document on stdout instead of the report.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn sought(&self) -> Sought {
        match self.fixed {
            true => Sought::Fix,
            false => Sought::Symptom,
        }
    }
}

/// Searches; exits with 0 where one place is to blame and every proof that could be tried
/// holds, 3 where none can be named.
///
/// # Errors
/// Usage: what cannot be searched; infrastructure: the search is given up, and --resume goes on.
pub fn run(args: &Args) -> Result<Exit> {
    match &args.resume {
        None => go(args, None),
        Some(named) => {
            let results = rig::results(args.asked.results.as_deref())?;
            let (session, again) = Session::read(&results, named)?;
            go(
                &Args {
                    json: args.json || again.json,
                    ..again
                },
                Some(session),
            )
        }
    }
}

fn go(args: &Args, session: Option<Session>) -> Result<Exit> {
    let say = |line: &str| terminal::say(line);
    let root = checkout()?;
    let cache = Cache::open(&say)?;
    let asked = &args.asked;
    let scenario = asked.scenario(&root, &known(&root)?, &cache, &say)?;
    let question = asked.question(&scenario, args.sought())?;
    let stored_ends = session.as_ref().and_then(|s| s.stored.commits.clone());
    let over = Over::new(args, &root, &cache, &scenario, stored_ends, &say)?;
    asked.ensure()?;
    let session = match session {
        Some(session) => session.same(&scenario)?,
        None => {
            let results = rig::results(asked.results.as_deref())?;
            Session::create(&results, &scenario, over.commits())?
        }
    };
    say(&format!(
        "searching {} for {}{}; kept in {}",
        over.text(),
        match question.sought {
            Sought::Symptom => "",
            Sought::Fix => "the end of ",
        },
        question.symptom,
        session.dir.display()
    ));
    let ground = over::Ground {
        root: &root,
        cache: &cache,
        like: &scenario.kernel,
        say: &say,
    };
    let searched = over.with(&ground, &session.dir, question.sought, &mut |places| {
        let mut booth = Booth {
            root: &root,
            cache: &cache,
            scenario: scenario.clone(),
            given: asked.given()?.to_owned(),
            clock: question.clock,
            accel: asked.accel,
            symptom: question.symptom,
            subject: places.subject,
            runs: session.runs(),
            host: serde_json::to_value(Fingerprint::take()?)?,
            command: session.stored.command.clone(),
            say: &say,
            kernels: BTreeMap::new(),
            steps: Vec::new(),
            anew: false,
        };
        let ended = search(places.line, &mut booth, &question)?;
        conclude(args, &session, &over, places, &mut booth, &question, &ended)
    });
    searched.inspect_err(|error| {
        let may_go_on = [Exit::Infrastructure, Exit::Stopped].contains(&exit_of(error));
        if may_go_on {
            let dir = shell_quote(&session.dir.to_string_lossy());
            say(&format!(
                "{}; go on with: cargo xtask bisect --resume {dir}",
                match error.chain().any(|e| e.is::<Stopped>()) {
                    true => "stopped",
                    false => "given up",
                }
            ));
        }
    })
}

/// Says what came out, and proves it.
fn conclude(
    args: &Args,
    session: &Session,
    over: &Over,
    places: &mut over::Places,
    booth: &mut Booth,
    question: &Question,
    ended: &Ended,
) -> Result<Exit> {
    let mut report = Report {
        schema: crate::core::search::REPORT_SCHEMA,
        asked: asked_for(over, booth, question),
        again: again(session, over),
        ..Report::default()
    };
    let exit = match ended {
        Ended::Found(place, confidence) => {
            report.confidence = *confidence;
            proofs::prove(&mut report, place, over, places, booth, question)?;
            match report.confirmed() {
                true => Exit::Done,
                false => Exit::Inconclusive,
            }
        }
        Ended::OneOf(of) => {
            let texts = of.iter().map(|p| booth.subject.text(p));
            let texts = texts.collect::<Vec<_>>().join("; ");
            report.found = format!(
                "it is one of {} that cannot be told apart: {texts}",
                of.len()
            );
            Exit::Inconclusive
        }
        Ended::Alike(shown) => {
            report.found = format!(
                "the ends do not differ in what is looked for, so there is nothing to search: {shown}"
            );
            Exit::Inconclusive
        }
        Ended::Swapped(shown) => {
            return Err(Fault::usage(format!(
                "the ends are the other way around ({shown}); {}",
                over.offer(args)
            ))
            .into());
        }
        Ended::NoEnd(place, why) => {
            report.found = format!(
                "the end {} cannot be judged, so nothing between can be: {why}; name another end",
                booth.subject.text(place)
            );
            Exit::Inconclusive
        }
        Ended::OutOfBoots(at) => {
            report.found = format!(
                "{} boots did not suffice (at {at}): allow more with --max-boots",
                question.patience.most_boots
            );
            Exit::Inconclusive
        }
    };
    let subject = booth.subject;
    let steps = booth.steps.iter();
    report.steps = steps.map(|s| (subject.text(&s.place), s.clone())).collect();
    let text = report.text();
    let path = session.dir.join("report.md");
    write_whole(&path, text.as_bytes())?;
    match args.json {
        true => terminal::out_line(&serde_json::to_string_pretty(&report)?)?,
        false => terminal::out(&text)?,
    }
    terminal::say(&format!("kept {}", path.display()));
    Ok(exit)
}

fn asked_for(over: &Over, booth: &Booth, question: &Question) -> String {
    let Scenario { name, variants, .. } = &booth.scenario;
    let variant = variants.first().map_or("", |v| v.name.as_str());
    let sought = match question.sought {
        Sought::Symptom => "the first place with",
        Sought::Fix => "the first place without",
    };
    format!(
        "Scenario {name}, variant {variant}, {} time, over {}: {sought} {}.",
        question.clock,
        over.text(),
        question.symptom
    )
}

fn again(session: &Session, over: &Over) -> Vec<String> {
    let words = ["cargo", "xtask"].map(str::to_owned);
    let words: Vec<_> = words.iter().chain(&session.stored.command).collect();
    let command: Vec<_> = words.iter().map(|w| shell_quote(w)).collect();
    let mut all = vec![command.join(" ")];
    if let Some(tree) = over.tree() {
        let log = session.dir.join("bisect.log");
        all.push(format!(
            "git -C {} bisect replay {}",
            shell_quote(&tree.to_string_lossy()),
            shell_quote(&log.to_string_lossy())
        ));
    }
    all
}
