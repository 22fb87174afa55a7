// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file systems that the kernel offers.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::{
    failure::{Failure, during},
    sys,
};

/// Type and place, in the order of mounting.
const MOUNTS: [(&str, &str); 4] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/tmp"),
];

/// Mounts all, making the folders that the initramfs lacks.
pub fn all() -> Result<(), Failure> {
    for (kind, at) in MOUNTS {
        fs::create_dir_all(at).map_err(during(format!("mkdir:{at}")))?;
        sys::mount(kind, at).map_err(|()| Failure::last(format!("mount:{at}")))?;
    }
    Ok(())
}

/// Mounts what a distribution has on /run, unless systemd does: it then keeps what we leave.
pub fn run() -> Result<(), Failure> {
    let at = "/run";
    fs::create_dir_all(at).map_err(during("mkdir:/run"))?;
    sys::mount("tmpfs", at).map_err(|()| Failure::last("mount:/run"))?;
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).map_err(during("mode:/run"))
}

/// Unmounts all, last first. What is in use goes when its last user does: nothing here is
/// on a disk that could lose something.
pub fn none() {
    for (_, at) in MOUNTS.iter().rev() {
        if sys::unmount(at).is_err() {
            Failure::last(format!("umount:{at}")).report();
        }
    }
}
