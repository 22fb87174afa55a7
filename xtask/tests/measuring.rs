// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real flow of a run over a scripted machine: plan, measure, store, resume, sum up.
#![allow(missing_docs)]

mod support;

use std::{collections::BTreeMap, fs, num::NonZeroUsize, path::Path, sync::Arc};

use bootrig::{
    core::{
        boot::{Outcome, TrialResult},
        fault::{Exit, Stopped},
        machine::{End, Machine, RawBoot},
        measure::{Ended, Options, Sink, measure},
        plan::{Overrides, Trial, plan},
        report,
        scenario::{Expectation, Known, Metric, Scenario, Target, Tolerance, parse},
        summary::{self, Summary, summarise},
        units::{Fraction, Nanos},
    },
    edge::store::{Header, Run, SCHEMA},
};
use expect_test::expect;
use support::*;

struct ToRun(Run);

impl Sink for ToRun {
    fn started(&mut self, _: &Trial) {}
    fn again(&mut self, _: &Trial, why: &str) {
        assert!(why.contains("QEMU"), "{why}");
    }
    fn finished(
        &mut self,
        trial: &Trial,
        raw: &RawBoot,
        result: &TrialResult,
    ) -> anyhow::Result<()> {
        self.0.store(trial, raw, result)
    }
}

fn options(jobs: usize, keep_going: bool) -> Options {
    Options {
        jobs: NonZeroUsize::new(jobs).unwrap(),
        keep_going,
        retries: 2,
    }
}

fn header(id: &str) -> Header {
    Header {
        schema: SCHEMA,
        id: id.into(),
        begun: "2026-01-01T00:00:00Z".into(),
        command: vec!["bench".into()],
        clock: None,
        repeats: None,
        debug: false,
        no_aa: false,
        under_test: Default::default(),
        scenarios: vec![],
        ready_kernel: None,
        shard: None,
        host: serde_json::json!({}),
        machine: Default::default(),
        kernels: vec![],
    }
}

/// Runs `plan` into a new or resumed run; returns how it ended and its summary.
fn run(
    results: &Path,
    id: &str,
    plan: &[Trial],
    machine: &dyn Machine,
    options: Options,
) -> (Ended, Summary) {
    let run = if results.join(id).exists() {
        Run::resume(results, id, plan).unwrap()
    } else {
        Run::create(results, &header(id)).unwrap()
    };
    let missing: Vec<Trial> = plan
        .iter()
        .filter(|t| !run.results.contains_key(&t.id))
        .cloned()
        .collect();
    let mut sink = ToRun(run);
    let ended = measure(&missing, machine, options, &mut sink).unwrap();
    let summary = summarise(id, serde_json::json!({}), vec![], plan, &sink.0.results);
    sink.0.finish(&summary).unwrap();
    (ended, summary)
}

fn csv(results: &Path, id: &str) -> String {
    fs::read_to_string(results.join(id).join("samples.csv")).unwrap()
}

fn expecting(of: Target, within: u32) -> Scenario {
    let mut s = scenario();
    s.expect = vec![Expectation {
        variant: "parallel".into(),
        metric: Metric::DeviceShutdown,
        tolerance: Tolerance::Within {
            part: Fraction(within),
            or: Nanos(0),
        },
        of,
    }];
    s
}

#[test]
fn samples_are_the_same_however_many_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let plan = trials(scenario(), 5);
    for jobs in [1, 2, 7] {
        let (ended, summary) = run(
            dir.path(),
            &format!("j{jobs}"),
            &plan,
            &Scripted::good(),
            options(jobs, false),
        );
        assert_eq!(ended, Ended::Complete);
        assert_eq!(summary::exit(&summary), Exit::Done);
    }
    assert_eq!(csv(dir.path(), "j1"), csv(dir.path(), "j2"));
    assert_eq!(csv(dir.path(), "j1"), csv(dir.path(), "j7"));
    assert!(
        csv(dir.path(), "j1")
            .contains("scripted,parallel,0,virtual,device_shutdown,ns,130000000\n")
    );
    assert!(
        csv(dir.path(), "j1")
            .contains("scripted,serial,4,virtual,device_shutdown/nic.1,ns,40000000\n")
    );
}

#[test]
fn a_stopped_run_resumes_without_repeating_a_boot() {
    let dir = tempfile::tempdir().unwrap();
    let plan = trials(scenario(), 4);
    run(
        dir.path(),
        "whole",
        &plan,
        &Scripted::good(),
        options(1, false),
    );
    // stopped at the fifth boot.
    let stop_at = plan[4].id.clone();
    let machine = Scripted::new(move |t, _| {
        if t.id == stop_at {
            Err(Stopped)
        } else {
            Ok(good(t))
        }
    });
    let (ended, summary) = run(dir.path(), "stopped", &plan, &machine, options(1, false));
    assert_eq!(ended, Ended::Stopped);
    assert!(
        summary.scenarios[0]
            .variants
            .iter()
            .all(|v| v.outcome.is_none())
    );
    // A power cut in the middle of a row, and a trial file that never got its name.
    let path = dir.path().join("stopped/samples.csv");
    fs::write(&path, &csv(dir.path(), "stopped")[..200]).unwrap();
    let machine = Scripted::good();
    let (ended, summary) = run(dir.path(), "stopped", &plan, &machine, options(1, false));
    assert_eq!(
        (ended, summary::exit(&summary)),
        (Ended::Complete, Exit::Done)
    );
    assert_eq!(
        machine.boots.lock().unwrap().len(),
        plan.len() - 4,
        "finished boots are not made again"
    );
    assert_eq!(csv(dir.path(), "stopped"), csv(dir.path(), "whole"));
}

#[test]
fn a_run_is_open_once_only() {
    let dir = tempfile::tempdir().unwrap();
    let plan = trials(scenario(), 1);
    let _open = Run::create(dir.path(), &header("r")).unwrap();
    let error = Run::resume(dir.path(), "r", &plan).err().unwrap();
    assert!(error.to_string().contains("another process"), "{error}");
}

#[test]
fn run_names_cannot_leave_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    for id in ["", "..", "../x", "/etc", "a/b", ".hidden", "nope", "a\nb"] {
        let error = Header::read(dir.path(), id).unwrap_err();
        assert_eq!(bootrig::core::fault::exit_of(&error), Exit::Usage, "{id}");
    }
}

#[test]
fn a_damaged_trial_is_named_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let plan = trials(scenario(), 1);
    run(dir.path(), "r", &plan, &Scripted::good(), options(1, false));
    let path = dir.path().join("r/trials/scripted+serial+0.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    let error = format!("{:#}", Run::resume(dir.path(), "r", &plan).err().unwrap());
    assert!(error.contains("scripted+serial+0.json"), "{error}");
}

#[test]
fn failures_stop_the_run_unless_told_to_keep_going() {
    let plan = trials(scenario(), 2);
    let panics = || {
        Scripted::new(|t, _| {
            let console = if t.id == "scripted/parallel/0" {
                b"Kernel panic - not syncing: x\n".to_vec()
            } else {
                vec![]
            };
            Ok(RawBoot { console, ..good(t) })
        })
    };
    let dir = tempfile::tempdir().unwrap();
    let (ended, summary) = run(dir.path(), "stop", &plan, &panics(), options(1, false));
    assert_eq!(
        (ended, summary::exit(&summary)),
        (Ended::GaveUp, Exit::Guest)
    );
    let (ended, summary) = run(dir.path(), "go", &plan, &panics(), options(1, true));
    assert_eq!(
        (ended, summary::exit(&summary)),
        (Ended::Complete, Exit::Guest)
    );
    let parallel = &summary.scenarios[0].variants[1];
    assert!(
        parallel.outcome_text().starts_with("panic: "),
        "{}",
        parallel.outcome_text()
    );
    // The failed repeat is no number: only the good one counts.
    assert_eq!(parallel.metrics["device_shutdown"].samples, [130 * MS]);
}

/// What a kernel has no means for is left out, and the boots after it are made.
#[test]
fn what_is_not_available_stops_nothing() {
    let plan = trials(scenario(), 2);
    let lacks = Scripted::new(|t, _| match t.variant().name.as_str() {
        "serial" => Ok(RawBoot {
            end: End::NotAvailable("it takes a newer one".into()),
            ..RawBoot::default()
        }),
        _ => Ok(good(t)),
    });
    let dir = tempfile::tempdir().unwrap();
    let (ended, summary) = run(dir.path(), "r", &plan, &lacks, options(1, false));
    assert_eq!(
        (ended, summary::exit(&summary)),
        (Ended::Complete, Exit::Done)
    );
    let [serial, parallel] = &summary.scenarios[0].variants[..] else {
        panic!("{summary:?}");
    };
    assert!(serial.is_not_available() && !serial.failed());
    assert_eq!(parallel.metrics["device_shutdown"].samples.len(), 2);
}

#[test]
fn a_failing_machine_is_retried_a_bounded_number_of_times() {
    let plan = trials(scenario(), 1);
    let broken = |good_after: u32| {
        Scripted::new(move |t, before| {
            let end = if before < good_after {
                End::Machine("QEMU was killed".into())
            } else {
                End::Finished
            };
            Ok(RawBoot { end, ..good(t) })
        })
    };
    let dir = tempfile::tempdir().unwrap();
    let (_, summary) = run(dir.path(), "heals", &plan, &broken(2), options(1, false));
    assert_eq!(summary::exit(&summary), Exit::Done);
    let machine = broken(u32::MAX);
    let (_, summary) = run(dir.path(), "never", &plan, &machine, options(1, false));
    assert_eq!(summary::exit(&summary), Exit::Infrastructure);
    assert!(machine.boots.lock().unwrap().values().all(|n| *n == 3));
    // Resumed, it is made again.
    let (_, summary) = run(
        dir.path(),
        "never",
        &plan,
        &Scripted::good(),
        options(1, false),
    );
    assert_eq!(summary::exit(&summary), Exit::Done);
}

#[test]
fn expectations_decide_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    for (id, of, within, exit) in [
        ("a", Target::Ideal, 0, Exit::Done),
        ("b", Target::Value(Nanos(131 * MS)), 10_000, Exit::Done),
        ("c", Target::Value(Nanos(200 * MS)), 10_000, Exit::Failed),
        ("d", Target::Variant("serial".into()), 400_000, Exit::Failed),
        ("e", Target::Variant("serial".into()), 500_000, Exit::Done),
    ] {
        let (_, summary) = run(
            dir.path(),
            id,
            &trials(expecting(of, within), 1),
            &Scripted::good(),
            options(1, false),
        );
        assert_eq!(
            summary::exit(&summary),
            exit,
            "{id}: {:?}",
            summary.scenarios[0].expectations
        );
    }
}

#[test]
fn the_oracle_fails_a_run() {
    let plan = trials(scenario(), 1);
    let machine = Scripted::new(|t, _| {
        let mut calls = shutdowns(t, SHUTDOWN);
        calls.pop();
        Ok(RawBoot {
            channel: channel(t, &calls),
            ..good(t)
        })
    });
    let dir = tempfile::tempdir().unwrap();
    let (ended, summary) = run(dir.path(), "r", &plan, &machine, options(1, false));
    assert_eq!(
        (ended, summary::exit(&summary)),
        (Ended::Complete, Exit::Failed)
    );
    assert!(
        summary.scenarios[0].variants[0].oracle.violations[0].contains("sw was shut down 0 times")
    );
}

/// What a kernel that checks itself takes says nothing, whatever a scenario expects.
#[test]
fn a_debug_run_judges_no_time() {
    let mut wrong = scenario();
    wrong.expect.push(Expectation {
        variant: wrong.variants[0].name.clone(),
        metric: Metric::DeviceShutdown,
        tolerance: Tolerance::AtMost(Fraction(1_000_000)),
        of: Target::Value(Nanos(1)),
    });
    let overrides = |debug| Overrides {
        clock: None,
        repeats: None,
        debug,
    };
    let scenario = std::sync::Arc::new(wrong);
    for (debug, exit) in [(false, Exit::Failed), (true, Exit::Done)] {
        let plan = plan(std::slice::from_ref(&scenario), overrides(debug));
        assert!(plan.iter().all(|t| t.kernel.debug == debug));
        let dir = tempfile::tempdir().unwrap();
        let (_, summary) = run(dir.path(), "d", &plan, &Scripted::good(), options(1, false));
        assert_eq!(summary::exit(&summary), exit);
    }
}

/// Each boot that is made again is said, so that nobody takes the wait for a slow guest.
#[test]
fn a_retry_is_said() {
    #[derive(Default)]
    struct Said(Vec<String>);
    impl Sink for Said {
        fn started(&mut self, _: &Trial) {}
        fn again(&mut self, trial: &Trial, why: &str) {
            self.0.push(format!("{}: {why}", trial.id));
        }
        fn finished(&mut self, _: &Trial, _: &RawBoot, _: &TrialResult) -> anyhow::Result<()> {
            Ok(())
        }
    }
    let plan = &trials(scenario(), 1)[..1];
    let machine = Scripted::new(|_, before| {
        Ok(RawBoot {
            end: End::Machine(format!("killed {before}")),
            ..RawBoot::default()
        })
    });
    let mut said = Said::default();
    measure(plan, &machine, options(1, true), &mut said).unwrap();
    let id = &plan[0].id;
    assert_eq!(
        said.0,
        [format!("{id}: killed 0"), format!("{id}: killed 1")]
    );
}

/// `a/b.c/0` and `a.b/c/0` are two trials: neither's file may be taken for the other's.
#[test]
fn trials_of_dotted_names_keep_apart() {
    let named = |name: &str, variant: &str| {
        let mut s = scenario();
        s.name = name.into();
        s.variants.truncate(1);
        s.variants[0].name = variant.into();
        std::sync::Arc::new(s)
    };
    let scenarios = [named("a", "b.c"), named("a.b", "c")];
    let plan = plan(&scenarios, Overrides::default());
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), "r", &plan, &Scripted::good(), options(1, false));
    let machine = Scripted::good();
    let (_, summary) = run(dir.path(), "r", &plan, &machine, options(1, false));
    assert_eq!(summary::exit(&summary), Exit::Done);
    assert_eq!(machine.boots.lock().unwrap().len(), 0, "all is there");
}

/// What stands where a run's files should be: pipes are not waited for, folders not taken
/// for boots that were not made.
#[test]
fn odd_files_in_a_run_are_named() {
    let plan = trials(scenario(), 1);
    for odd in [
        "trials/scripted+serial+0.json",
        ".lock",
        "run.yaml",
        "console",
    ] {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), "r", &plan, &Scripted::good(), options(1, false));
        let path = dir.path().join("r").join(odd);
        if odd == "console" {
            fs::remove_dir_all(&path).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
            let made = std::process::Command::new("mkfifo").arg(&path).status();
            assert!(made.unwrap().success());
        }
        let opened =
            Header::read(dir.path(), "r").and_then(|_| Run::resume(dir.path(), "r", &plan));
        let error = opened.err().unwrap_or_else(|| panic!("{odd} was taken"));
        assert_eq!(
            bootrig::core::fault::exit_of(&error),
            Exit::Usage,
            "{error:#}"
        );
    }
}

/// A value that was edited in samples.csv is not what the trials yielded.
#[test]
fn a_summary_knows_its_samples() {
    let dir = tempfile::tempdir().unwrap();
    let plan = trials(scenario(), 2);
    let (_, summary) = run(dir.path(), "r", &plan, &Scripted::good(), options(2, false));
    let csv = fs::read_to_string(dir.path().join("r/samples.csv")).unwrap();
    assert_eq!(summary.confirms(&csv), Ok(()));
    let row = csv.lines().nth(3).unwrap();
    let edited = csv.replace(row, &format!("{row}1"));
    assert!(summary.confirms(&edited).unwrap_err().contains("line 4"));
    let garbage = csv.replace(row, "garbage");
    assert!(summary.confirms(&garbage).unwrap_err().contains("line 4"));
    let cut = &csv[..csv.len() / 2];
    assert!(summary.confirms(cut).is_err());
    let without: String = csv
        .lines()
        .filter(|l| *l != row)
        .map(|l| format!("{l}\n"))
        .collect();
    assert!(summary.confirms(&without).unwrap_err().contains("1 of"));
}

#[test]
fn a_full_disk_stops_the_run_and_keeps_what_is_stored() {
    struct Full(u32);
    impl Sink for Full {
        fn started(&mut self, _: &Trial) {}
        fn again(&mut self, _: &Trial, _: &str) {}
        fn finished(&mut self, _: &Trial, _: &RawBoot, _: &TrialResult) -> anyhow::Result<()> {
            self.0 += 1;
            anyhow::ensure!(self.0 < 2, "no space left on device");
            Ok(())
        }
    }
    let plan = trials(scenario(), 100);
    // A boot takes longer than to hear of the full disk.
    let machine = Scripted::new(|trial, _| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        Ok(good(trial))
    });
    let error = measure(&plan, &machine, options(2, true), &mut Full(0)).unwrap_err();
    assert!(error.to_string().contains("no space"));
    assert!(machine.boots.lock().unwrap().len() < plan.len());
}

#[test]
fn summary_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    let (_, summary) = run(
        dir.path(),
        "r",
        &trials(scenario(), 1),
        &Scripted::good(),
        options(1, false),
    );
    let text = fs::read_to_string(dir.path().join("r/summary.json")).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
    let results: BTreeMap<String, TrialResult> = BTreeMap::new();
    let empty = summarise(
        "r",
        serde_json::json!({}),
        vec![],
        &trials(scenario(), 1),
        &results,
    );
    assert_eq!(
        summary::exit(&empty),
        Exit::Guest,
        "nothing measured is no success"
    );
    assert!(Outcome::Completed.to_string() == "completed");
}

/// Parallel shutdown of a lock's holders grows with their number; that of the others not.
#[test]
fn a_sweep_tells_how_figures_grow() {
    let text = "about: a\nkernel: \"6.1\"\nmachine: {cpus: 1, memory: 256 MiB}\n\
        profiles:\n  nic: {id: \"8086:1528\", about: a, source: s, shutdown: [{wait: 10 ms}], lock: rtnl}\n\
        devices: [{name: nic, profile: nic, count: 1}]\n\
        variants: {serial: {order: serial}, parallel: {order: parallel}}\n\
        measure: [boot, device_shutdown]\n\
        sweep:\n  devices: [1, 10, 100]\n  of: nic\n  growth:\n    \
        - {variant: parallel, metric: device_shutdown, at_most: 0.5}\n    \
        - {variant: serial, metric: device_shutdown, at_most: 1.01}\n    \
        - {variant: serial, metric: boot, at_most: 0.01}\n";
    let swept = parse("grown.yaml", text, &Known::default()).unwrap_or_else(|e| panic!("{e}"));
    let members: Vec<_> = swept.members().iter().cloned().map(Arc::new).collect();
    let plan = plan(&members, Overrides::default());
    let dir = tempfile::tempdir().unwrap();
    let whole = |scripted: Scripted, id: &str| {
        run(dir.path(), id, &plan, &scripted, options(2, true))
            .1
            .with_growth([&swept])
    };
    let summary = whole(Scripted::good(), "good");
    let named: Vec<&Scenario> = swept.members().iter().collect();
    expect![[r#"
        ## grown: growth over devices

        ### boot

        | devices  |        1 |       10 |      100 | exponent | 95 % interval | at the end |  at most |
        |----------|----------|----------|----------|----------|---------------|------------|----------|
        | serial   | 280.0 ms | 280.0 ms | 280.0 ms |     0.00 |  0.00 to 0.00 |       0.00 | 0.01: ok |
        | parallel | 280.0 ms | 280.0 ms | 280.0 ms |     0.00 |  0.00 to 0.00 |       0.00 |        - |

        ### device_shutdown

        | devices  |        1 |       10 |     100 | exponent | 95 % interval | at the end |     at most |
        |----------|----------|----------|---------|----------|---------------|------------|-------------|
        | serial   | 10.00 ms | 100.0 ms | 1.000 s |     1.00 |  1.00 to 1.00 |       1.00 |    1.01: ok |
        | parallel | 10.00 ms | 100.0 ms | 1.000 s |     1.00 |  1.00 to 1.00 |       1.00 | 0.5: MISSED |

        oracle: 1878 facts checked, 0 violations

    "#]].assert_eq(&report::text(&summary, &named));
    assert_eq!(summary::exit(&summary), Exit::Failed);

    // A size that did not complete is left out, and says nothing.
    let summary = whole(
        Scripted::new(|trial, _| {
            let mut raw = good(trial);
            if trial.id == "grown@10/parallel/0" {
                raw.channel.truncate(100);
            }
            Ok(raw)
        }),
        "holed",
    );
    let growth = &summary.growth[3];
    assert_eq!((growth.points.len(), growth.ok), (2, None), "{growth:?}");
    assert_eq!(summary::exit(&summary), Exit::Guest);
}
