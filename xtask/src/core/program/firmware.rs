// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware files of a guest, where request_firmware() finds them.

use std::collections::BTreeMap;

use crate::core::{
    plan::Trial,
    scenario::{DeviceFault, Firmware},
};

/// The head of each file; its size follows in eight bytes, little endian.
const MAGIC: &[u8; 8] = b"bootrig\n";

/// Whether a fault is one of a device's firmware.
pub(super) fn is_about(fault: DeviceFault) -> bool {
    matches!(fault, DeviceFault::NoFirmware | DeviceFault::ShortFirmware)
}

/// The name of a profile's firmware, as request_firmware() is told.
pub(super) fn file(profile: &str, fault: Option<DeviceFault>) -> String {
    let end = match fault {
        Some(DeviceFault::NoFirmware) => "missing",
        Some(DeviceFault::ShortFirmware) => "short",
        _ => "bin",
    };
    format!("bootrig/{profile}.{end}")
}

/// The files of `trial`, by path.
pub(super) fn files(trial: &Trial) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for device in 0..trial.scenario.devices.len() {
        let profile = trial.scenario.profile(trial.variant(), device);
        let Some((profile, firmware)) = profile.and_then(|p| Some((p, p.firmware?))) else {
            continue;
        };
        let fault = trial.variant().probing.faults.get(&device).copied();
        if fault == Some(DeviceFault::NoFirmware) {
            continue;
        }
        let path = format!("lib/firmware/{}", file(&profile.name, fault));
        files.entry(path).or_insert_with(|| match fault {
            Some(DeviceFault::ShortFirmware) => {
                let mut whole = contents(&firmware);
                whole.truncate(whole.len() / 2);
                whole
            }
            _ => contents(&firmware),
        });
    }
    files
}

/// A file that is no run of equal bytes, and the same each time.
fn contents(firmware: &Firmware) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(firmware.size.0 as usize);
    bytes.extend(MAGIC);
    bytes.extend(firmware.size.0.to_le_bytes());
    let rest = firmware.size.0.saturating_sub(bytes.len() as u64);
    bytes.extend((0..rest).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8));
    bytes
}
