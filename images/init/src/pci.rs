// SPDX-License-Identifier: MIT OR Apache-2.0
//! PCI devices by their place: the protocol's PATH, and its directory in sysfs.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// Most levels of a path.
const MOST_LEVELS: usize = 7;

/// A device's place: the slot and function of each bridge from root bus 00 of the domain
/// down, and of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    domain: u16,
    /// Each `SS.F`, as sysfs and lspci write it.
    levels: Vec<String>,
}

impl Place {
    /// Reads `[D:]SS.F/SS.F/...`, D in decimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let (domain, levels) = match text.split_once(':') {
            Some((domain, levels)) => (number(domain)?.try_into().ok()?, levels),
            None => (0, text),
        };
        let levels: Vec<String> = levels.split('/').map(str::to_owned).collect();
        let good = levels.len() <= MOST_LEVELS && levels.iter().all(|level| is_level(level));
        good.then_some(Self { domain, levels })
    }

    /// The device's directory below `sys`, where sysfs is.
    ///
    /// # Errors
    /// `NotFound` if there is no such device.
    pub fn find(&self, sys: &Path) -> io::Result<PathBuf> {
        // A host bridge may have a parent of its own; its root bus is always listed here.
        let bus = format!("class/pci_bus/{:04x}:00/device", self.domain);
        let mut at = sys.join(bus);
        for level in &self.levels {
            at = child(&at, level)?;
        }
        Ok(at)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.domain != 0 {
            write!(f, "{}:", self.domain)?;
        }
        f.write_str(&self.levels.join("/"))
    }
}

/// The device `level` on the bus below the device or host bridge at `at`.
fn child(at: &Path, level: &str) -> io::Result<PathBuf> {
    for entry in fs::read_dir(at)? {
        let entry = entry?;
        // Device links are in the same directory, as symbolic links with such names.
        if is_device(&entry.file_name().to_string_lossy(), level) && entry.file_type()?.is_dir() {
            return Ok(entry.path());
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Whether `name` is a device's, `DDDD:BB:SS.F`, at `level` of its bus.
fn is_device(name: &str, level: &str) -> bool {
    name.strip_suffix(level)
        .and_then(|bus| bus.strip_suffix(':'))
        .and_then(|bus| bus.split_once(':'))
        .is_some_and(|(domain, bus)| {
            (4..=8).contains(&domain.len()) && is_hex(domain) && bus.len() == 2 && is_hex(bus)
        })
}

/// `SS.F`: lower-case hexadecimal digits of a slot up to 1f, a function up to 7.
fn is_level(text: &str) -> bool {
    matches!(text.as_bytes(), [b'0' | b'1', low, b'.', b'0'..=b'7'] if is_hex_digit(*low))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(is_hex_digit)
}

fn is_hex_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Decimal digits and nothing else.
pub fn number(text: &str) -> Option<u64> {
    // str::parse takes a plus sign.
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn reads_what_the_protocol_calls_a_path() {
        for good in ["00.0", "1f.7", "02.0/1f.7", "1:02.0", "65535:0a.3/00.0"] {
            assert_eq!(Place::parse(good).unwrap().to_string(), good);
        }
        assert_eq!(
            Place::parse("0001:02.0"),
            Place::parse("1:02.0"),
            "zeros in front"
        );
        let seven = ["01.0"; 7].join("/");
        assert!(Place::parse(&seven).is_some());
        for bad in [
            "",
            "/",
            "02.0/",
            "/02.0",
            "2.0",
            "02.8",
            "20.0",
            "1F.0",
            "02.00",
            "02",
            "..",
            "02.0/../03.0",
            ":02.0",
            "-1:02.0",
            "+1:02.0",
            "65536:02.0",
            "1:2:02.0",
            "0x1:02.0",
            &format!("{seven}/01.0"),
        ] {
            assert_eq!(Place::parse(bad), None, "{bad:?}");
        }
    }

    /// Two domains, the second below a platform device; bridges, a device link that looks
    /// like a device, and what else is in such directories.
    fn tree() -> tempdir::Dir {
        let dir = tempdir::Dir::new();
        for device in [
            "devices/pci0000:00/0000:00:01.0/0000:01:1f.7",
            "devices/pci0000:00/0000:00:01.0/0000:01:00.0:pcie001",
            "devices/pci0000:00/0000:00:02.0/power",
            "devices/platform/host/pci0001:00/0001:00:01.0/0001:03:00.0",
            "devices/virtual/devlink/a--b",
            "class/pci_bus/0000:00",
            "class/pci_bus/0001:00",
        ] {
            fs::create_dir_all(dir.0.join(device)).unwrap();
        }
        let link = |to: &str, at: &str| symlink(to, dir.0.join(at)).unwrap();
        link(
            "../../../devices/pci0000:00",
            "class/pci_bus/0000:00/device",
        );
        link(
            "../../../devices/platform/host/pci0001:00",
            "class/pci_bus/0001:00/device",
        );
        link(
            "../../virtual/devlink/a--b",
            "devices/pci0000:00/0000:00:02.0/0000:01:03.0",
        );
        link(
            "../../virtual/devlink/a--b",
            "devices/pci0000:00/0000:00:02.0/consumer:pci:0000:00:01.0",
        );
        dir
    }

    #[test]
    fn walks_down_from_the_root_bus() {
        let dir = tree();
        let check = |place: &str, expect: Option<&str>| {
            let found = Place::parse(place).unwrap().find(&dir.0);
            match expect {
                Some(expect) => assert_eq!(
                    found.unwrap().canonicalize().unwrap(),
                    dir.0.join(expect).canonicalize().unwrap(),
                    "{place}"
                ),
                None => assert_eq!(
                    found.unwrap_err().kind(),
                    io::ErrorKind::NotFound,
                    "{place}"
                ),
            }
        };
        check("01.0", Some("devices/pci0000:00/0000:00:01.0"));
        check(
            "01.0/1f.7",
            Some("devices/pci0000:00/0000:00:01.0/0000:01:1f.7"),
        );
        check(
            "1:01.0/00.0",
            Some("devices/platform/host/pci0001:00/0001:00:01.0/0001:03:00.0"),
        );
        check("03.0", None);
        check("01.0/00.0", None);
        check("02.0/03.0", None);
        check("02.0/01.0", None);
        check("2:01.0", None);
    }

    /// A folder that goes with its owner.
    mod tempdir {
        use std::{
            fs,
            path::PathBuf,
            process,
            sync::atomic::{AtomicU32, Ordering},
        };

        pub struct Dir(pub PathBuf);

        impl Dir {
            pub fn new() -> Self {
                static NEXT: AtomicU32 = AtomicU32::new(0);
                let next = NEXT.fetch_add(1, Ordering::Relaxed);
                let name = format!("bootrig-init-{}-{next}", process::id());
                let path = std::env::temp_dir().join(name);
                fs::create_dir(&path).unwrap();
                Self(path)
            }
        }

        impl Drop for Dir {
            fn drop(&mut self) {
                let _ = fs::remove_dir_all(&self.0);
            }
        }
    }
}
