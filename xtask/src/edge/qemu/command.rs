// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's command line for a trial. Pure; and the same text works when typed by hand.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{
    find::{Qemu, SANDBOX},
    kernel_words,
    qmp::Order,
};
use crate::core::{
    fault::Fault,
    layout::Layout,
    plan::Trial,
    qemu_version::QemuVersion,
    scenario::{Clock, MachineKind, MachineSpec, Restart},
    units::Bytes,
};

mod hotplug;

/// The guest's calendar at each start: the same in every run, or its real-time clock
/// would differ.
const CALENDAR: &str = "2024-01-01T00:00:00";
/// Linux gives a new program's arguments a quarter of its stack, 2 MiB as a rule; some is
/// for the environment.
const MOST_ARGUMENT_BYTES: usize = 3 << 19;
/// Without x2APIC there are no more CPU numbers.
const MOST_CPUS: u32 = 255;

/// The CPU of the translator. Without `-rdrand,-rdseed` the host's randomness would come in.
/// It calls itself a Xeon E5 v4: on CPUs of QEMU's own name Linux expects no constant time
/// stamp counter, and measures each further CPU's delay loop for 150 ms by spinning, which
/// no machine of today does. Without `-monitor` an idle CPU of several waits in MWAIT (5.10
/// does, on this name), which the translator only knows as running on: idle time is not skipped.
const TRANSLATED_CPU: &str =
    "max,-rdrand,-rdseed,-monitor,vendor=GenuineIntel,family=6,model=79,stepping=1";

/// In virtual time an instruction takes `1 << SHIFT` nanoseconds.
pub const SHIFT: u32 = 1;

/// The form of the command line: to be raised with any change that may change numbers.
pub const COMMAND: u32 = 2;

/// The event channel, and the machine's end at PID 1's word (docs/protocol.md).
const DEVICES: [&str; 2] = [
    "isa-debugcon,iobase=0x505,chardev=channel",
    "isa-debug-exit,iobase=0x501,iosize=0x04",
];

/// What runs the guest's instructions by the wall clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The host's processor.
    Kvm,
    /// QEMU's translator.
    Tcg {
        /// Why not KVM.
        why: String,
    },
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kvm => f.write_str("KVM"),
            Self::Tcg { why } => write!(f, "TCG ({why})"),
        }
    }
}

/// What the host offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The QEMU to use.
    pub qemu: Qemu,
    /// For trials by the wall clock; virtual time always counts instructions.
    pub accelerator: Accelerator,
    /// Frequency of the host's time stamp counter, which a guest under TCG sees by the
    /// wall clock ([`super::host_tsc_khz`]). `None`: not known; the guest finds out.
    pub tsc_khz: Option<u32>,
}

/// The files of one boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootFiles {
    /// Kernel image (bzImage).
    pub kernel: PathBuf,
    /// Initramfs.
    pub initrd: PathBuf,
    /// Where the event channel goes.
    pub channel: PathBuf,
    /// Where the console goes.
    pub console: PathBuf,
    /// Where QEMU's own messages go.
    pub messages: PathBuf,
    /// QMP socket, to ask a hung guest where it is.
    pub qmp: Option<PathBuf>,
    /// File with [`super::sync_rom`]'s bytes, for virtual time.
    pub rom: Option<PathBuf>,
}

impl BootFiles {
    /// Everything that the machine writes goes below `dir`.
    pub fn below(dir: &Path, kernel: &Path, initrd: &Path) -> Self {
        let qmp = dir.join("qmp");
        Self {
            kernel: kernel.into(),
            initrd: initrd.into(),
            channel: dir.join("channel"),
            console: dir.join("console"),
            messages: dir.join("messages"),
            // The name of a socket cannot be longer than 107 bytes.
            qmp: Some(qmp).filter(|q| q.as_os_str().len() <= 107),
            rom: None,
        }
    }
    /// The same with the option ROM for virtual time.
    pub fn with_rom(self, rom: &Path) -> Self {
        Self {
            rom: Some(rom.into()),
            ..self
        }
    }
    /// The same without QMP: for command lines that are typed by hand.
    pub fn without_qmp(self) -> Self {
        Self { qmp: None, ..self }
    }
}

/// Something about a machine that is not as the scenario asked; to be shown and recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// This QEMU cannot count the instructions of several CPUs.
    OneCpu {
        /// As the scenario asked.
        wanted: u32,
        /// The QEMU.
        version: QemuVersion,
    },
    /// QEMU would load the initramfs over the machine's ACPI tables.
    LessMemory {
        /// As the scenario asked.
        wanted: Bytes,
        /// As it is.
        given: Bytes,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneCpu { wanted, version } => write!(
                f,
                "1 CPU instead of {wanted}: in virtual time QEMU {version} starts no second one ({} and newer do)",
                QemuVersion::MANY_CPUS
            ),
            Self::LessMemory { wanted, given } => write!(
                f,
                "{given} of memory instead of {wanted}: at just that size QEMU loads a microvm's initramfs over its ACPI tables"
            ),
        }
    }
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// QEMU.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// CPUs that the guest really gets.
    pub cpus: u32,
    /// What is not as the scenario asked.
    pub notes: Vec<Note>,
    /// The clock it runs by.
    pub clock: Clock,
    /// The machine ends, with status 0, where it would reset.
    pub ends_at_reset: bool,
    /// What QEMU is told when the guest asks for it, by stopping its machine; then it goes on.
    pub attach: Vec<Order>,
}

impl CommandLine {
    /// Ready to be started.
    pub fn to_command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args);
        command
    }
}

impl fmt::Display for CommandLine {
    /// For a shell, each word quoted where it must be.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shell_quote(&self.program.to_string_lossy()))?;
        self.args
            .iter()
            .try_for_each(|arg| write!(f, " {}", shell_quote(arg)))
    }
}

/// One word of a shell's.
pub fn shell_quote(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./,:=+@%".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Where the console goes.
enum Console<'a> {
    File(&'a Path),
    Terminal,
}

/// QEMU's command line for `trial` with its devices at `layout`'s places.
///
/// # Errors
/// Usage errors: a path that is no text, a kernel command line or a device list that is
/// too long, a CPU count or memory size that no machine has.
pub fn command(
    host: &Host,
    files: &BootFiles,
    trial: &Trial,
    layout: &Layout,
) -> Result<CommandLine, Fault> {
    build(host, files, trial, layout, &Console::File(&files.console))
}

/// The same machine with its console on the terminal (Ctrl-A X ends it, Ctrl-A C is
/// QEMU's monitor). It reads the terminal: start it in the foreground.
///
/// # Errors
/// As [`command`].
pub fn interactive(
    host: &Host,
    files: &BootFiles,
    trial: &Trial,
    layout: &Layout,
) -> Result<CommandLine, Fault> {
    build(host, files, trial, layout, &Console::Terminal)
}

/// The arguments that make a machine wait, before its first instruction, for a debugger
/// on a Unix socket.
///
/// # Errors
/// When the path is no text.
pub fn gdb_args(socket: &Path) -> Result<Vec<String>, Fault> {
    Ok(vec![
        "-gdb".into(),
        format!("unix:{},server=on,wait=off", value(socket)?),
        "-S".into(),
    ])
}

/// What the user types to debug that machine. A breakpoint in the kernel must be a
/// hardware one until the kernel is unpacked.
pub fn gdb_hint(vmlinux: &Path, socket: &Path) -> String {
    let vmlinux = shell_quote(&vmlinux.to_string_lossy());
    let target = shell_quote(&format!("target remote {}", socket.display()));
    format!(
        "gdb {vmlinux} -ex {target} -ex 'hbreak start_kernel' -ex continue\n(names of functions only: bootrig's kernels are built without debug information)"
    )
}

fn build(
    host: &Host,
    files: &BootFiles,
    trial: &Trial,
    layout: &Layout,
    console: &Console,
) -> Result<CommandLine, Fault> {
    let spec = &trial.scenario.machine;
    let (cpus, mut notes) = cpus(spec, trial.clock, host.qemu.version)?;
    let mut args: Vec<String> = Vec::new();
    let mut put = |words: &[&str]| args.extend(words.iter().map(|w| (*w).to_owned()));
    // Nothing that is not asked for: no configuration of the user's, no network, no screen.
    put(&["-no-user-config", "-nodefaults", "-display", "none"]);
    put(&[
        "-machine",
        &format!("{},memory-backend=ram", machine(spec.kind)),
    ]);
    match (trial.clock, &host.accelerator) {
        // Idle time is skipped.
        (Clock::Virtual, _) => {
            put(&[
                "-accel",
                "tcg,thread=single",
                "-icount",
                &format!("shift={SHIFT},sleep=off"),
            ]);
            put(&[
                "-rtc",
                &format!("clock=vm,base={CALENDAR}"),
                "-cpu",
                TRANSLATED_CPU,
            ]);
            if let Some(rom) = &files.rom {
                put(&["-option-rom", text(rom)?]);
            }
        }
        (Clock::Wall, Accelerator::Tcg { .. }) => {
            put(&[
                "-accel",
                "tcg,thread=multi",
                "-rtc",
                &format!("clock=host,base={CALENDAR}"),
            ]);
            put(&["-cpu", TRANSLATED_CPU]);
        }
        (Clock::Wall, Accelerator::Kvm) => {
            put(&[
                "-accel",
                "kvm",
                "-rtc",
                &format!("clock=host,base={CALENDAR}"),
                "-cpu",
                "host",
            ]);
        }
    }
    put(&[
        "-seed",
        &trial.seed().to_string(),
        "-smp",
        &cpus.to_string(),
    ]);
    // `reserve=off`: memory that the guest never touches costs nothing, not even a promise.
    let (memory, less) = memory(spec)?;
    notes.extend(less);
    let plugged = hotplug::of(trial);
    put(&[
        "-m",
        &(memory.clone() + &plugged.limits),
        "-object",
        &format!("memory-backend-ram,id=ram,size={memory},reserve=off"),
    ]);
    put(&[
        "-kernel",
        text(&files.kernel)?,
        "-initrd",
        text(&files.initrd)?,
    ]);
    put(&["-append", &kernel_words::command_line(host, trial)?]);
    let console = match console {
        Console::File(path) => format!("file,id=console,path={}", value(path)?),
        // Ctrl-C belongs to the guest.
        Console::Terminal => "stdio,id=console,mux=on,signal=off".into(),
    };
    put(&["-chardev", &console, "-serial", "chardev:console"]);
    if console.starts_with("stdio") {
        put(&["-mon", "chardev=console,mode=readline"]);
    }
    put(&[
        "-chardev",
        &format!("file,id=channel,path={}", value(&files.channel)?),
    ]);
    DEVICES.iter().for_each(|device| put(&["-device", device]));
    // A second boot that nothing is measured in would double the host's time; and kexec
    // that came to a reset would pass for one that worked.
    if !trial.boots_again() || trial.variant().restart == Restart::Kexec {
        put(&["-no-reboot"]);
    }
    if let Some(socket) = &files.qmp {
        put(&[
            "-qmp",
            &format!("unix:{},server=on,wait=off", value(socket)?),
        ]);
    }
    if host.qemu.sandbox {
        put(&["-sandbox", SANDBOX]);
    }
    for device in layout.qemu_devices() {
        put(&["-device", &device.to_string()]);
    }
    args.extend(plugged.args);
    let bytes: usize = args.iter().map(|a| a.len() + 1 + size_of::<usize>()).sum();
    if bytes > MOST_ARGUMENT_BYTES {
        return Err(Fault::usage(format!(
            "scenario {}: {} devices make a QEMU command line of {bytes} bytes; the limit is {MOST_ARGUMENT_BYTES}: use fewer, or `machine: {{backend: guest}}`",
            trial.scenario.name,
            layout.paths.len()
        )));
    }
    Ok(CommandLine {
        program: host.qemu.program.clone(),
        args,
        cpus,
        notes,
        clock: trial.clock,
        ends_at_reset: !trial.boots_again(),
        attach: plugged.attach,
    })
}

/// The smallest guest that shows whether KVM works.
pub(super) fn kvm_probe(qemu: &Qemu, files: &BootFiles) -> Result<CommandLine, Fault> {
    let console = format!("file,id=console,path={}", value(&files.console)?);
    let channel = format!("file,id=channel,path={}", value(&files.channel)?);
    let mut args = vec![
        "-no-user-config",
        "-nodefaults",
        "-display",
        "none",
        "-machine",
        machine(MachineKind::Microvm),
    ];
    args.extend(["-accel", "kvm", "-cpu", "host", "-smp", "1", "-m", "256M"]);
    args.extend([
        "-kernel",
        text(&files.kernel)?,
        "-initrd",
        text(&files.initrd)?,
    ]);
    args.extend(["-append", "console=ttyS0 loglevel=5 panic=0"]);
    args.extend([
        "-chardev",
        &console,
        "-serial",
        "chardev:console",
        "-chardev",
        &channel,
    ]);
    args.extend(DEVICES.iter().flat_map(|device| ["-device", device]));
    if qemu.sandbox {
        args.extend(["-sandbox", SANDBOX]);
    }
    let args = args.into_iter().map(str::to_owned).collect();
    Ok(CommandLine {
        program: qemu.program.clone(),
        args,
        cpus: 1,
        notes: Vec::new(),
        clock: Clock::Wall,
        ends_at_reset: false,
        attach: Vec::new(),
    })
}

/// QEMU's machine without what no scenario uses.
fn machine(kind: MachineKind) -> &'static str {
    match kind {
        // The kernel's words are ours alone; no transports of virtio-mmio are added to them.
        MachineKind::Microvm => {
            "microvm,pcie=on,acpi=on,rtc=on,isa-serial=on,auto-kernel-cmdline=off"
        }
        MachineKind::Q35 => "q35,hpet=off,sata=off,smbus=off,usb=off,vmport=off,graphics=off",
    }
}

fn cpus(spec: &MachineSpec, clock: Clock, version: QemuVersion) -> Result<(u32, Vec<Note>), Fault> {
    if !(1..=MOST_CPUS).contains(&spec.cpus) {
        return Err(Fault::usage(format!(
            "a machine has 1 to {MOST_CPUS} CPUs, not {}",
            spec.cpus
        )));
    }
    if spec.cpus > 1 && clock == Clock::Virtual && version < QemuVersion::MANY_CPUS {
        return Ok((
            1,
            vec![Note::OneCpu {
                wanted: spec.cpus,
                version,
            }],
        ));
    }
    Ok((spec.cpus, Vec::new()))
}

/// The last byte that a bzImage lets its initramfs have (`initrd_addr_max`), plus one.
const INITRAMFS_END: Bytes = Bytes(2 << 30);

/// QEMU rounds odd sizes up, and then the memory does not fit its backend.
fn memory(spec: &MachineSpec) -> Result<(String, Option<Note>), Fault> {
    let wanted = spec.memory;
    if wanted.0 == 0 || !wanted.0.is_multiple_of(1 << 20) {
        return Err(Fault::usage(format!(
            "guest memory must be a whole number of MiB, not {wanted}"
        )));
    }
    let size = |bytes: Bytes| format!("{}M", bytes.0 >> 20);
    // QEMU wants the initramfs as high as RAM and kernel allow, and its linuxboot_dma.bin
    // moves it below the firmware's tables unless it ends where the kernel's limit is. On a
    // microvm of this size both are the end of RAM, and the tables lie there.
    if spec.kind == MachineKind::Microvm && wanted == INITRAMFS_END {
        let given = Bytes(wanted.0 - (1 << 20));
        return Ok((size(given), Some(Note::LessMemory { wanted, given })));
    }
    Ok((size(wanted), None))
}

fn text(path: &Path) -> Result<&str, Fault> {
    path.to_str().ok_or_else(|| {
        Fault::usage(format!(
            "path {} is not valid UTF-8, which QEMU's options need",
            path.display()
        ))
    })
}

/// A path inside an option: QEMU reads a doubled comma as one.
fn value(path: &Path) -> Result<String, Fault> {
    Ok(text(path)?.replace(',', ",,"))
}

#[cfg(test)]
mod tests;
