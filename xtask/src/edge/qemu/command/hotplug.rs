// SPDX-License-Identifier: MIT OR Apache-2.0
//! What QEMU is told of memory that is plugged in: before the machine starts by arguments, while
//! it runs by orders.

use serde_json::json;

use super::super::qmp::Order;
use crate::core::{
    plan::Trial,
    scenario::{Plugged, When},
    units::Bytes,
};

/// What the guest asks through (docs/protocol.md), and what it then does.
const ASK: [&str; 4] = ["-device", "ib700", "-action", "watchdog=pause"];
/// The root bus's place beside q35's own bridge to the old world: no device of a scenario is
/// there.
const PLACE: &str = "bus=pcie.0,addr=1f.7";
const VIRTIO_MEM: &str = "vmem";
/// What the driver asks is answered by the thread that asks. By an eventfd it would be another,
/// some time later of the host's.
const AT_ONCE: &str = "ioeventfd=off";

/// What a machine with memory to be plugged in has beside others.
#[derive(Debug, Default)]
pub(super) struct Hotplug {
    /// To be added to `-m`.
    pub limits: String,
    /// More arguments.
    pub args: Vec<String>,
    /// What QEMU is told when the guest asks for it.
    pub attach: Vec<Order>,
}

/// That of `trial`; nothing where nothing is plugged in.
pub(super) fn of(trial: &Trial) -> Hotplug {
    let memory = trial.scenario.memory;
    let Some((hotplug, blocks)) = memory.and_then(|m| Some((m.hotplug()?, m.blocks))) else {
        return Hotplug::default();
    };
    let size = hotplug.size(blocks);
    let most = trial.scenario.machine.memory.0 + size.0;
    let slots = match hotplug.plugged {
        Plugged::PcDimm(_) => format!(",slots={}", hotplug.devices(blocks)),
        Plugged::VirtioMem => String::new(),
    };
    let mut out = Hotplug {
        limits: format!("{slots},maxmem={}M", most >> 20),
        ..Hotplug::default()
    };
    let later = hotplug.when == When::Later;
    match hotplug.plugged {
        Plugged::PcDimm(each) => {
            for number in 0..hotplug.devices(blocks) {
                if later {
                    out.attach.extend(dimm_orders(number, each));
                } else {
                    out.args.extend(dimm(number, each));
                }
            }
        }
        Plugged::VirtioMem => {
            let asked = if later { Bytes(0) } else { size };
            out.args.extend([
                "-object".into(),
                backend("plug0", size),
                "-device".into(),
                format!(
                    "virtio-mem-pci,id={VIRTIO_MEM},memdev=plug0,requested-size={}M,{AT_ONCE},{PLACE}",
                    asked.0 >> 20
                ),
            ]);
            if later {
                out.attach.push(Order {
                    execute: "qom-set",
                    arguments: json!({
                        "path": format!("/machine/peripheral/{VIRTIO_MEM}"),
                        "property": "requested-size",
                        "value": size.0,
                    }),
                });
            }
        }
    }
    if later {
        out.args.extend(ASK.map(str::to_owned));
    }
    out
}

/// Memory that costs nothing before the guest touches it.
fn backend(id: &str, size: Bytes) -> String {
    format!(
        "memory-backend-ram,id={id},size={}M,reserve=off",
        size.0 >> 20
    )
}

fn dimm(number: u64, each: Bytes) -> [String; 4] {
    [
        "-object".into(),
        backend(&format!("plug{number}"), each),
        "-device".into(),
        format!("pc-dimm,id=dimm{number},memdev=plug{number}"),
    ]
}

fn dimm_orders(number: u64, each: Bytes) -> [Order; 2] {
    let backend = json!({
        "qom-type": "memory-backend-ram",
        "id": format!("plug{number}"),
        "size": each.0,
        "reserve": false,
    });
    let dimm = json!({
        "driver": "pc-dimm",
        "id": format!("dimm{number}"),
        "memdev": format!("plug{number}"),
    });
    [("object-add", backend), ("device_add", dimm)]
        .map(|(execute, arguments)| Order { execute, arguments })
}
