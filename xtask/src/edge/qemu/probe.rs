// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether KVM works here. A `/dev/kvm` that opens proves nothing: there are hosts on
//! which a machine can be made and its guest never gets past its first second. So a
//! guest is booted, once for each boot of the host.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{
    command::{Accelerator, BootFiles, CommandLine, kvm_probe},
    find::Qemu,
    limits::Limits,
    run,
};
use crate::{
    core::{machine::End, units::Nanos},
    edge::{files::write_whole, process},
};

const KVM: &str = "/dev/kvm";
/// The probe's guest is up in half a second under KVM.
const PATIENCE: Nanos = Nanos(15_000_000_000);

/// Which accelerator the user wants for the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum AccelChoice {
    /// KVM where a probe boot shows that it works, else TCG.
    #[default]
    Auto,
    /// KVM or an error.
    Kvm,
    /// TCG.
    Tcg,
}

/// What the probe boots.
#[derive(Clone, Debug)]
pub struct ProbeImage {
    /// Any kernel of the run.
    pub kernel: PathBuf,
    /// An initramfs whose PID 1 ends the machine through the debug-exit port.
    pub initrd: PathBuf,
    /// Identity of the two.
    pub key: String,
}

/// The accelerator for trials by the wall clock. The probe's answer is kept in `memory`, a
/// folder that is made if it is not there.
///
/// # Errors
/// When KVM was asked for and does not work, with what was seen; when interrupted
/// ([`process::Stopped`]); when `memory` cannot be written.
pub fn choose(
    choice: AccelChoice,
    qemu: &Qemu,
    image: &ProbeImage,
    memory: &Path,
) -> Result<Accelerator> {
    let device = Path::new(KVM);
    let patience = PATIENCE;
    Probe {
        device,
        qemu,
        image,
        memory,
        patience,
    }
    .choose(choice)
}

/// Why there is no using KVM here, as far as its device tells without a boot.
pub fn kvm_missing() -> Option<String> {
    unusable(Path::new(KVM))
}

fn unusable(device: &Path) -> Option<String> {
    let shown = device.display();
    let error = File::options().read(true).write(true).open(device).err()?;
    Some(match error.kind() {
        io::ErrorKind::NotFound => format!("there is no {shown}"),
        io::ErrorKind::PermissionDenied => {
            format!("{shown} may not be opened (is the user in group kvm?)")
        }
        _ => format!("opening {shown}: {error}"),
    })
}

/// What a probe made since the host booted found out, with whatever kernel, if `memory`
/// holds it. Boots nothing.
pub fn remembered(qemu: &Qemu, memory: &Path) -> Option<Accelerator> {
    let answer = fs::read(memory.join("accelerator.json")).ok()?;
    let answer: Answer = serde_json::from_slice(&answer).ok()?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let program = qemu.program.display();
    let same = format!("{} {program} {} ", boot.trim(), qemu.banner);
    let accelerator = match answer.fault {
        None => Accelerator::Kvm,
        Some(why) => Accelerator::Tcg { why },
    };
    answer.identity.starts_with(&same).then_some(accelerator)
}

/// The question, with everything that its answer depends on.
pub struct Probe<'a> {
    /// `/dev/kvm`.
    pub device: &'a Path,
    /// Who would use it.
    pub qemu: &'a Qemu,
    /// What is booted to see.
    pub image: &'a ProbeImage,
    /// The folder where the answer is kept.
    pub memory: &'a Path,
    /// Host time that the probe's guest has.
    pub patience: Nanos,
}

/// What is remembered.
#[derive(Serialize, Deserialize)]
struct Answer {
    /// Everything the answer depends on.
    identity: String,
    /// Why KVM does not work; `None`: it does.
    fault: Option<String>,
}

impl Probe<'_> {
    /// As [`choose`].
    ///
    /// # Errors
    /// The same.
    pub fn choose(&self, choice: AccelChoice) -> Result<Accelerator> {
        if choice == AccelChoice::Tcg {
            return Ok(Accelerator::Tcg {
                why: "as asked".into(),
            });
        }
        match (self.fault()?, choice) {
            (None, _) => Ok(Accelerator::Kvm),
            (Some(why), AccelChoice::Kvm) => {
                bail!("KVM does not work here: {why}; use `--accel auto` or `--accel tcg`")
            }
            (Some(why), _) => Ok(Accelerator::Tcg { why }),
        }
    }

    /// Why KVM does not work, if it does not.
    fn fault(&self) -> Result<Option<String>> {
        if let Some(why) = unusable(self.device) {
            return Ok(Some(why));
        }
        let identity = self.identity()?;
        let path = self.memory.join("accelerator.json");
        // Anything but a whole answer to the same question is no answer.
        let known = fs::read(&path)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Answer>(&bytes).ok());
        if let Some(answer) = known.filter(|a| a.identity == identity) {
            return Ok(answer.fault);
        }
        let fault = self.boot()?;
        fs::create_dir_all(self.memory)
            .with_context(|| format!("making {}", self.memory.display()))?;
        write_whole(
            &path,
            &serde_json::to_vec(&Answer {
                identity,
                fault: fault.clone(),
            })?,
        )?;
        Ok(fault)
    }

    fn identity(&self) -> Result<String> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .context("reading the host's boot id")?;
        Ok(format!(
            "{} {} {} {}",
            boot.trim(),
            self.qemu.program.display(),
            self.qemu.banner,
            self.image.key
        ))
    }

    fn boot(&self) -> Result<Option<String>> {
        let dir = process::scratch("bootrig-probe-")?;
        let files =
            BootFiles::below(dir.path(), &self.image.kernel, &self.image.initrd).without_qmp();
        let line: CommandLine = kvm_probe(self.qemu, &files)?;
        let raw = run::boot(&line, &files, &Limits::probe(self.patience))
            .map_err(|_| process::Stopped)?;
        Ok(match raw.end {
            End::Finished => None,
            // It ran: what it then had to complain about is no fault of KVM's.
            End::Early(_) if raw.channel.starts_with(b"bootrig1 i 0 hello ") => None,
            End::Machine(why) if why.contains("invalid accelerator") => {
                Some("this QEMU is built without KVM".into())
            }
            End::Deadline(_) => Some(format!(
                "a guest under KVM did not come up within {}",
                self.patience
            )),
            End::Early(why) | End::Machine(why) | End::NotAvailable(why) => {
                Some(format!("a guest under KVM did not come up: {why}"))
            }
            End::Splat(line) => Some(format!("a guest under KVM died: {line}")),
        })
    }
}

/// Frequency of the host's time stamp counter, to some parts in 100,000. Takes a twentieth
/// of a second. `None` where there is no such counter.
pub fn host_tsc_khz() -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a counter that every x86-64 has.
        let now = || {
            (std::time::Instant::now(), unsafe {
                core::arch::x86_64::_rdtsc()
            })
        };
        let (start, first) = now();
        std::thread::sleep(Duration::from_millis(50));
        let (end, last) = now();
        let khz = u128::from(last.checked_sub(first)?) * 1_000_000 / (end - start).as_nanos();
        // Rounded, so that command lines differ less from run to run.
        let khz = u32::try_from(khz).ok()?.checked_add(50)? / 100 * 100;
        (100_000..20_000_000).contains(&khz).then_some(khz)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}
