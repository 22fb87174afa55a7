// SPDX-License-Identifier: MIT OR Apache-2.0
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::mpsc,
};

use sha2::{Digest, Sha256};

use super::*;
use crate::{
    core::fault::{Exit, exit_of},
    edge::kernel::{sources::Place, tests::lab::Lab},
    left_out::left_out,
};

impl Lab {
    /// Runs a program in the lab, which must succeed.
    fn run(&self, program: &str, args: &[&str]) -> String {
        let mut command = process::tool(program);
        command.args(args).current_dir(self.dir.path());
        process::read(program, command, Duration::from_secs(60)).unwrap()
    }
    fn fetch(&self, origin: Origin) -> Result<(Identity, PathBuf)> {
        let say = |line: &str| self.say(line);
        let source = Source {
            name: "k".into(),
            origin,
            patches: "k".into(),
            config: vec![],
        };
        let identity = identify(&self.cache, &source, &say)?;
        provide(&self.cache, &source, &identity, &say)
    }
    /// The kernel as a tarball, and its sha256.
    fn tarball(&self) -> (PathBuf, String) {
        self.run("tar", &["--create", "--file", "linux.tar", "linux"]);
        let sum = sha256(&fs::read(self.path("linux.tar")).unwrap());
        (self.path("linux.tar"), sum)
    }
    fn downloads(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.cache.root().join("download"))
            .unwrap()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// Serves `bytes` at a URL. The nth connection is cut after `cuts[n]` bytes of the body;
/// the `Range` each asked for, or nothing, goes to the receiver.
fn serve(bytes: Vec<u8>, cuts: Vec<Option<usize>>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/linux.tar", listener.local_addr().unwrap());
    let (send, ranges) = mpsc::channel();
    std::thread::spawn(move || {
        for cut in cuts {
            let (mut stream, _) = listener.accept().unwrap();
            let mut range = String::new();
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let line = line.unwrap();
                if line.is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                    range = value.to_owned();
                }
            }
            let from = range.trim_end_matches('-').parse::<usize>().unwrap_or(0);
            let (status, body) = if from == 0 {
                ("200 OK", &bytes[..])
            } else {
                ("206 Partial Content", &bytes[from..])
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{}/{}\r\nConnection: close\r\n\r\n",
                body.len(),
                bytes.len() - 1,
                bytes.len()
            );
            let _ = send.send(range);
            let _ = stream.write_all(head.as_bytes()).and_then(|()| {
                stream.write_all(&body[..cut.unwrap_or(body.len()).min(body.len())])
            });
        }
    });
    (url, ranges)
}

#[test]
fn a_tarball_by_path_is_checked_unpacked_and_kept() {
    let lab = Lab::new();
    let (path, sum) = lab.tarball();
    let origin = Origin::Tarball {
        from: Place::Path(path.clone()),
        sha256: sum.clone(),
    };
    let (identity, dir) = lab.fetch(origin.clone()).unwrap();
    assert!(identity.text.contains(&sum) && dir.join("tree/kernel/fork.c").is_file());
    // Once there, the tarball is not needed.
    fs::remove_file(&path).unwrap();
    assert_eq!(lab.fetch(origin).unwrap().1, dir);
    assert!(!lab.said().contains("corrupt"));
}

#[test]
fn a_wrong_checksum_is_refused_with_both_sums_and_the_download_removed() {
    let lab = Lab::new();
    let (path, sum) = lab.tarball();
    let wrong = "ab".repeat(32);
    let refused = |origin| {
        let error = format!("{:#}", lab.fetch(origin).unwrap_err());
        assert!(error.contains(&sum) && error.contains(&wrong), "{error}");
    };
    refused(Origin::Tarball {
        from: Place::Path(path.clone()),
        sha256: wrong.clone(),
    });
    assert!(path.exists(), "the user's own file stays");
    if process::which("curl").is_none() && process::which("wget").is_none() {
        left_out("nothing is downloaded without curl or wget");
        return;
    }
    let (url, _ranges) = serve(fs::read(&path).unwrap(), vec![None]);
    refused(Origin::Tarball {
        from: Place::Url(url),
        sha256: wrong.clone(),
    });
    assert_eq!(lab.downloads(), Vec::<String>::new());
}

#[test]
fn an_interrupted_download_is_taken_up_where_it_stopped() {
    if process::which("curl").is_none() {
        left_out("without curl it is wget that resumes, by itself");
        return;
    }
    let lab = Lab::new();
    let (path, sum) = lab.tarball();
    let (url, ranges) = serve(fs::read(&path).unwrap(), vec![Some(50_000), None]);
    let origin = Origin::Tarball {
        from: Place::Url(url.clone()),
        sha256: sum.clone(),
    };
    let error = format!("{:#}", lab.fetch(origin.clone()).unwrap_err());
    assert!(error.contains(&url), "{error}");
    assert_eq!(lab.downloads(), [format!("{sum}.part")]);
    let (_, dir) = lab.fetch(origin).unwrap();
    assert!(dir.join("tree/kernel/fork.c").is_file());
    assert_eq!(ranges.iter().collect::<Vec<_>>(), ["", "50000-"]);
    assert_eq!(lab.downloads(), Vec::<String>::new());
}

#[test]
fn a_part_of_something_else_is_begun_again() {
    if process::which("curl").is_none() {
        left_out("without curl it is wget that resumes, by itself");
        return;
    }
    let lab = Lab::new();
    let (path, sum) = lab.tarball();
    fs::write(
        lab.cache
            .root()
            .join("download")
            .join(format!("{sum}.part")),
        "rubbish",
    )
    .unwrap();
    let (url, ranges) = serve(fs::read(&path).unwrap(), vec![None, None]);
    lab.fetch(Origin::Tarball {
        from: Place::Url(url),
        sha256: sum,
    })
    .unwrap();
    assert_eq!(ranges.iter().collect::<Vec<_>>(), ["7-", ""]);
    assert!(lab.said().contains("from the beginning"));
}

#[test]
fn what_holds_no_kernel_is_refused() {
    let lab = Lab::new();
    fs::remove_file(lab.path("linux/Kconfig")).unwrap();
    let (path, sha256) = lab.tarball();
    let error = format!(
        "{:#}",
        lab.fetch(Origin::Tarball {
            from: Place::Path(path),
            sha256
        })
        .unwrap_err()
    );
    assert!(error.contains("no kernel source"), "{error}");
    let error = lab.fetch(Origin::Tree(lab.path("linux"))).unwrap_err();
    assert_eq!(exit_of(&error), Exit::Usage);
}

#[test]
fn a_tree_is_copied_clean_and_known_again_by_its_bytes() {
    let lab = Lab::new();
    let origin = || Origin::Tree(lab.path("linux"));
    let (first, dir) = lab.fetch(origin()).unwrap();
    fs::create_dir_all(lab.path("linux/.git")).unwrap();
    fs::write(lab.path("linux/.git/HEAD"), "x").unwrap();
    // What a build in place left is not the source.
    fs::write(lab.path("linux/.config"), "x").unwrap();
    let (second, _) = lab.fetch(origin()).unwrap();
    assert_eq!(first, second);
    assert!(!dir.join("tree/.git").exists() && !dir.join("tree/.config").exists());
    lab.said();
    lab.fetch(origin()).unwrap();
    assert_eq!(lab.said(), "", "an untouched tree is not copied again");
    // Editing the tree makes another source and leaves the copy alone.
    fs::write(lab.path("linux/kernel/fork.c"), "y").unwrap();
    assert_ne!(lab.fetch(origin()).unwrap().0, first);
    assert_eq!(
        fs::read(dir.join("tree/kernel/fork.c")).unwrap().len(),
        100_000
    );
}

#[test]
fn a_commit_is_taken_from_a_near_and_a_far_repository() {
    if process::which("git").is_none() {
        left_out("git is not installed");
        return;
    }
    let lab = Lab::new();
    let git = |args: &[&str]| {
        let settings = [
            "-C",
            "linux",
            "-c",
            "user.name=n",
            "-c",
            "user.email=e",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "init.defaultBranch=main",
        ];
        lab.run("git", &[&settings[..], args].concat())
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "one"]);
    git(&["tag", "--annotate", "v1", "--message", "tag"]);
    let commit = git(&["rev-parse", "HEAD"]).trim().to_owned();
    fs::write(lab.path("linux/kernel/fork.c"), "later").unwrap();
    let near = |reference: &str| Origin::Git {
        from: Place::Path(lab.path("linux")),
        reference: reference.into(),
    };
    let (identity, dir) = lab.fetch(near("v1")).unwrap();
    assert_eq!(identity.text, format!("git commit {commit}"));
    assert_eq!(
        fs::read(dir.join("tree/kernel/fork.c")).unwrap().len(),
        100_000,
        "the commit, not the work tree"
    );
    let error = format!("{:#}", lab.fetch(near("v2")).unwrap_err());
    assert!(error.contains("looking for v2 in"), "{error}");
    // The same commit from elsewhere is the same source.
    let url = format!("file://{}", lab.path("linux").display());
    let far = |reference: &str| Origin::Git {
        from: Place::Url(url.clone()),
        reference: reference.into(),
    };
    assert_eq!(
        lab.fetch(far("v1")).unwrap(),
        (identity.clone(), dir.clone())
    );
    fs::remove_dir_all(&dir).unwrap();
    lab.run(
        "git",
        &[
            "-C",
            "linux",
            "config",
            "uploadpack.allowAnySHA1InWant",
            "true",
        ],
    );
    assert!(
        lab.fetch(far("v1"))
            .unwrap()
            .1
            .join("tree/Makefile")
            .is_file()
    );
    // Out of reach, the last answer holds, loudly.
    fs::rename(lab.path("linux/.git"), lab.path("linux/git")).unwrap();
    lab.said();
    assert_eq!(lab.fetch(far("v1")).unwrap().0, identity);
    assert!(lab.said().contains("warning: asking file://"));
}

#[test]
fn a_version_that_the_archive_lost_stays_replaced() {
    let lab = Lab::new();
    let wanted = apt::Wanted {
        package: "linux-source-6.1",
        version: "6.1.1-1",
        suites: &[],
    };
    let say = |line: &str| lab.say(line);
    assert_eq!(
        apt::in_force(&lab.cache, wanted.package, wanted.version, &say).unwrap(),
        "6.1.1-1"
    );
    assert_eq!(lab.said(), "");
    apt::remember(&lab.cache, &wanted, "6.1.9-1", &say).unwrap();
    assert_eq!(
        apt::in_force(&lab.cache, wanted.package, wanted.version, &say).unwrap(),
        "6.1.9-1"
    );
    assert!(
        lab.said()
            .contains("no longer has linux-source-6.1 6.1.1-1: using 6.1.9-1")
    );
}
