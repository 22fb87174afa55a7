// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that stand in for QEMU: shell scripts that find the files of a machine in
//! their arguments, as QEMU does, and then do what a test asks.
#![allow(dead_code, missing_docs)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use bootrig::{
    core::{machine::RawBoot, qemu_version::QemuVersion, scenario::Clock},
    edge::qemu::{BootFiles, CommandLine, Limits, Qemu, boot},
};
use tempfile::TempDir;

/// Answers QEMU's questions, finds the files, and plays `play` from their folder.
const PLAYER: &str = r#"#!/bin/sh
case "$*" in
    --version) echo "QEMU emulator version 10.0.2 (fake)"; exit 0 ;;
    *"-cpu help"*) exit 0 ;;
esac
for word; do
    case "$word" in
        file,id=channel,path=*) channel=${word#file,id=channel,path=} ;;
        file,id=console,path=*) console=${word#file,id=console,path=} ;;
        */initrd) play=$word ;;
    esac
done
: > "$channel"
: > "$console"
dir=${channel%/*}
hello() { echo "bootrig1 i 0 hello boot=$1 release=6.1 cpus=1 mono=1 tsc=1 #00000000" >> "$channel"; }
leave() { echo "bootrig1 i 1 leave how=reboot mono=1 tsc=1 #00000000" >> "$channel"; }
say() { echo "$1" >> "$console"; }
. "$play"
"#;

struct Scripts {
    dir: TempDir,
}

/// Written once, before any test starts a process: a script that some other thread's child
/// still holds open for writing cannot be executed.
fn scripts() -> &'static Scripts {
    static SCRIPTS: OnceLock<Scripts> = OnceLock::new();
    SCRIPTS.get_or_init(|| {
        let dir = TempDir::new().unwrap();
        let answer = |text: &str| format!("#!/bin/sh\necho '{text}'\n");
        for (name, text) in [
            ("player", PLAYER.to_owned()),
            ("old", answer("QEMU emulator version 6.2.0 (Debian 1:6.2)")),
            ("mute", answer("this is no machine")),
            (
                "failing",
                "#!/bin/sh\necho no such library >&2\nexit 127\n".to_owned(),
            ),
            (
                "unfenced",
                PLAYER.replace("*\"-cpu help\"*) exit 0", "*\"-cpu help\"*) exit 1"),
            ),
        ] {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Scripts { dir }
    })
}

/// One of the stand-ins: `player`, `old`, `mute`, `failing`, `unfenced`.
pub fn program(name: &str) -> PathBuf {
    scripts().dir.path().join(name)
}

/// The player as a QEMU that was found.
pub fn qemu() -> Qemu {
    Qemu {
        program: program("player"),
        version: QemuVersion(10, 0, 2),
        banner: "QEMU emulator version 10.0.2 (fake)".into(),
        sandbox: true,
    }
}

/// A machine whose QEMU does what its script says.
pub struct Fake {
    pub dir: TempDir,
    pub files: BootFiles,
    pub line: CommandLine,
}

impl Fake {
    pub fn new(play: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let initrd = dir.path().join("initrd");
        fs::write(&initrd, play).unwrap();
        let files = BootFiles::below(dir.path(), Path::new("kernel"), &initrd);
        let file = |name: &str, path: &Path| format!("file,id={name},path={}", path.display());
        let args = vec![
            initrd.display().to_string(),
            file("channel", &files.channel),
            file("console", &files.console),
        ];
        let line = CommandLine {
            program: program("player"),
            args,
            cpus: 1,
            notes: vec![],
            clock: Clock::Virtual,
            ends_at_reset: false,
            attach: vec![],
        };
        Self { dir, files, line }
    }
    pub fn wall(mut self) -> Self {
        self.line.clock = Clock::Wall;
        self
    }
    pub fn boot(&self, limits: &Limits) -> RawBoot {
        boot(&self.line, &self.files, limits).unwrap()
    }
    /// A process number that the script left in file `name`.
    pub fn pid(&self, name: &str) -> u32 {
        fs::read_to_string(self.dir.path().join(name))
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }
}

/// Whether a process ends soon: a killed grandchild is nobody's to wait for, so its end is
/// waited for here.
pub fn ends(pid: u32) -> bool {
    let there = || {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = status.rsplit(')').next().unwrap_or_default().trim_start();
        !state.is_empty() && !state.starts_with(['Z', 'X'])
    };
    let start = Instant::now();
    while there() {
        if start.elapsed() > Duration::from_secs(30) {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
