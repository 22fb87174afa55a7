// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

fn error(text: &str) -> String {
    let e = parse(text, Path::new("/checkout")).unwrap_err();
    assert_eq!(
        crate::core::fault::exit_of(&e),
        crate::core::fault::Exit::Usage
    );
    e.to_string()
}

#[test]
fn the_committed_file_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let names: Vec<_> = read(root).unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["5.10", "6.1", "6.12", "7.2", "7.3"]);
    for source in read(root).unwrap() {
        for fragment in source.config {
            assert!(
                root.join("images/kernels/fragments")
                    .join(&fragment)
                    .is_file(),
                "{fragment}"
            );
        }
    }
}

#[test]
fn reads_every_kind() {
    let sha = "ab".repeat(32);
    let text = format!(
        "sources:\n  a: {{tree: {{path: ../linux}}, patches: '6.1', config: [x.config]}}\n  \
             b: {{git: {{url: 'https://kernel.example/linux.git', ref: v6.1}}}}\n  \
             c: {{tarball: {{path: /src/l.tar.xz, sha256: {sha}}}}}\n"
    );
    let all = parse(&text, Path::new("/checkout")).unwrap();
    assert_eq!(
        all[0],
        Source {
            name: "a".into(),
            origin: Origin::Tree("/checkout/../linux".into()),
            patches: "6.1".into(),
            config: vec!["x.config".into()]
        }
    );
    assert_eq!(
        all[1].origin,
        Origin::Git {
            from: Place::Url("https://kernel.example/linux.git".into()),
            reference: "v6.1".into()
        }
    );
    assert_eq!(
        all[2].origin,
        Origin::Tarball {
            from: Place::Path("/src/l.tar.xz".into()),
            sha256: sha
        }
    );
    assert_eq!(all[2].config, ["base.config"]);
}

#[test]
fn refuses_with_file_and_line() {
    let cases = [
        (
            "sources:\n  a:\n    tree: {path: x}\n    colour: red\n",
            ":4: sources.a: unknown field `colour`",
        ),
        (
            "sources:\n  a:\n    tree: {path: x, paht: y}\n",
            ":3: sources.a.tree: unknown field `paht`",
        ),
        (
            "sources:\n  a:\n    tree: {path: x}\n  b:\n    patches: x\n",
            ":4: kernel `b`: give exactly one",
        ),
        (
            "sources:\n  a:\n    tree: {path: x}\n  a:\n    tree: {path: x}\n",
            ":4: kernel `a`: the name is used twice",
        ),
        (
            "sources:\n  '../a':\n    tree: {path: x}\n",
            ":2: kernel `../a`: name",
        ),
        (
            "sources:\n  a:\n    tree: {path: x}\n    config: ['../../x']\n",
            ":2: kernel `a`: config `../../x`",
        ),
        (
            "sources:\n  a:\n    tarball: {path: x, sha256: abc}\n",
            ":2: kernel `a`: sha256",
        ),
        (
            "sources:\n  a:\n    tarball: {url: 'file:///x', sha256: abc}\n",
            "sha256",
        ),
        (
            "sources:\n  a:\n    git: {url: 'ext::sh -c x', ref: v1}\n",
            ":2: kernel `a`: url",
        ),
        (
            "sources:\n  a:\n    git: {path: x, ref: '--upload-pack=x'}\n",
            ":2: kernel `a`: ref",
        ),
        (
            "sources:\n  a:\n    debian: {package: '-o', version: '1.2', suites: [x]}\n",
            ":2: kernel `a`: package",
        ),
        (
            "sources:\n  a:\n    debian: {package: p, version: '1.2', suites: []}\n",
            ":2: kernel `a`: suites",
        ),
        ("source: {}\n", ":1: unknown field `source`"),
        ("", ":1:"),
    ];
    for (text, want) in cases {
        let got = error(text);
        assert!(
            got.contains(want) && got.starts_with(FILE),
            "{text:?}: {got}"
        );
    }
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let e = find(root, "6.11").unwrap_err().to_string();
    assert!(
        e.contains("`6.11`") && e.contains("Did you mean `6.1"),
        "{e}"
    );
}
