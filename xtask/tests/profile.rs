// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask profile` over records on disk, through the real command; nothing boots.
#![allow(missing_docs)]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use bootrig::core::{
    scenario::{Over, Point},
    trace::{
        record::{Record, SCHEMA},
        tally::{Function, Profile},
    },
};

/// What a size of a sweep executed: `sort` squares, `walk` does not.
fn record(size: u64, cut: bool) -> Record {
    let of = |name: &str, own: i64| {
        let function = Function {
            own,
            with_callees: own,
            calls: 1,
        };
        (name.to_owned(), function)
    };
    let (walk, sort) = (1_000_000 * size as i64, 40 * (size * size) as i64);
    Record {
        schema: SCHEMA,
        boot: format!("many@{size}/stock"),
        point: Some(Point {
            of: "many".into(),
            over: Over::Devices,
            value: size,
        }),
        kernel: "6.1".into(),
        qemu: "10.0.2".into(),
        stacks: true,
        complete: true,
        windows: vec![Profile {
            window: "boot".into(),
            length: 2 * (walk + sort),
            cut,
            ns_per_instruction: 2,
            tasks: walk + sort,
            functions: [of("walk", walk), of("sort", sort)].into(),
            ..Profile::default()
        }],
        marks: Vec::new(),
    }
}

fn results(records: &[Record]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let traces = dir.path().join("run/traces");
    fs::create_dir_all(&traces).unwrap();
    for record in records {
        let name = format!("{}.json", record.boot.replace(['@', '/'], "+"));
        fs::write(traces.join(name), serde_json::to_vec(record).unwrap()).unwrap();
    }
    dir
}

/// Exit code, stdout, stderr.
fn profile(results: &Path, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("profile")
        .args(args)
        .args(["--results", results.to_str().unwrap()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn growth_names_who_grows_faster_than_the_sweep() {
    let dir = results(&[record(100, false), record(1000, false), record(400, false)]);
    let (code, said, _) = profile(dir.path(), &["growth", "run"]);
    assert_eq!(code, 0);
    assert!(
        said.contains("superlinear: sort grows as devices^2.00 (at the end ^2.00): 3.8 % of the kernel's instructions at 1000, 28.6 % at 10000"),
        "{said}"
    );
    assert!(!said.contains("superlinear: walk"), "{said}");
    let (code, json, _) = profile(dir.path(), &["growth", "run:many/stock", "--json"]);
    assert_eq!(code, 0);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["sizes"], serde_json::json!([100, 400, 1000]));
    assert_eq!(json[0]["functions"][0]["name"], "walk");
}

#[test]
fn what_cannot_be_said_of_growth_is_refused_with_the_reason() {
    let single = Record {
        point: None,
        ..record(100, false)
    };
    for (records, args, want) in [
        (
            vec![],
            &["growth", "run"][..],
            "has no traces: make one with bench --profile",
        ),
        (
            vec![single],
            &["growth", "run"],
            "no traced boot is of a sweep",
        ),
        (
            vec![record(100, false)],
            &["growth", "rum"],
            "there is no run `rum`",
        ),
        (
            vec![record(100, false)],
            &["show", "rum:many/stock"],
            "did you mean `run`?",
        ),
        (
            vec![record(100, false)],
            &["growth", "run"],
            "two sizes or more",
        ),
        (
            vec![record(100, false), record(200, true)],
            &["growth", "run"],
            "was cut",
        ),
        (
            vec![record(100, false), record(200, false)],
            &["growth", "run", "--window", "probe"],
            "has no window `probe`",
        ),
        (
            vec![record(100, false), record(200, false)],
            &["growth", "run:many/stok"],
            "did you mean `many/stock`",
        ),
    ] {
        let dir = results(&records);
        let (code, _, said) = profile(dir.path(), args);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(want), "{said}");
    }
}

#[test]
fn a_damaged_record_and_one_of_another_version_are_refused() {
    let old = Record {
        schema: SCHEMA - 1,
        ..record(100, false)
    };
    let dir = results(&[old]);
    let (code, _, said) = profile(dir.path(), &["show", "run"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("this program reads"), "{said}");
    let dir = results(&[record(100, false)]);
    let file = dir.path().join("run/traces/many+100+stock.json");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let (code, _, said) = profile(dir.path(), &["show", "run"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("no record of a traced boot"), "{said}");
}

#[test]
fn a_record_of_figures_that_no_boot_has_is_refused_wherever_it_is_read() {
    let mut huge = record(100, false);
    huge.windows[0].tasks = i64::MAX;
    let mut long = record(100, false);
    long.boot = "x".repeat(1 << 20);
    let dir = results(&[]);
    let file = dir.path().join("run/traces/many+100+stock.json");
    for record in [huge, long] {
        fs::write(&file, serde_json::to_vec(&record).unwrap()).unwrap();
        for args in [
            &["show", "run"][..],
            &["show", "run", "--window", "boot"],
            &["show", file.to_str().unwrap()],
            &["diff", "run", "run", "--window", "boot"],
            &["growth", "run"],
        ] {
            let (code, out, said) = profile(dir.path(), args);
            assert_eq!((code, out.as_str()), (2, ""), "{said}");
            for part in [file.to_str().unwrap(), "no record", "trace the boot again"] {
                assert!(said.contains(part), "{said}");
            }
            assert!(said.len() < 2000, "{} bytes", said.len());
        }
    }
}

#[test]
fn a_cut_window_and_a_missing_one_say_so() {
    let dir = results(&[record(100, true)]);
    let (code, said, _) = profile(dir.path(), &["show", "run"]);
    assert_eq!(code, 0);
    assert!(said.contains("boot (cut)"), "{said}");
    let (code, said, _) = profile(dir.path(), &["show", "run", "--window", "boot"]);
    assert_eq!(code, 0);
    assert!(
        said.contains("cut: the machine was reset or ended"),
        "{said}"
    );
    let (code, _, said) = profile(dir.path(), &["show", "run", "--window", "boto"]);
    assert_eq!(code, 2);
    assert!(said.contains("did you mean `boot`"), "{said}");
}

#[test]
fn what_cannot_be_traced_is_refused_before_anything_is_built_or_booted() {
    let dir = tempfile::tempdir().unwrap();
    let (bad, none) = (dir.path().join("bad"), dir.path().join("none"));
    fs::write(&bad, b"no symbols").unwrap();
    let kept = dir.path().join("results");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    for (args, want) in [
        (
            vec!["--profile=device_shutdwon".to_owned()],
            "windows are device_shutdown, boot",
        ),
        (
            vec!["--mark=f".into(), "--profile=g".into()],
            "no window `g`",
        ),
        (
            vec!["--profile".into(), "--symbols".into(), text(&bad)],
            "symbols ",
        ),
        (
            vec!["--mark=f".into(), "--symbols".into(), text(&none)],
            "No such file",
        ),
        (
            vec!["--mark=f".into(), "--symbols=/dev/zero".into()],
            "is no regular file",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["bench", "--results", kept.to_str().unwrap()])
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(want), "{said}");
        assert!(!kept.exists(), "{said}");
    }
}

#[test]
fn a_kernel_without_symbols_is_refused_before_anything_boots() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("bzImage");
    fs::write(&image, b"no kernel").unwrap();
    let (code, _, said) = profile(dir.path(), &["boot", "--kernel", image.to_str().unwrap()]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--symbols"), "{said}");
}
