// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines, whole.

use std::{collections::BTreeMap, sync::Arc};

use expect_test::{Expect, expect};

use super::*;
use crate::core::{
    layout::lay_out,
    plan::KernelSpec,
    scenario::{
        Backend, Device, Metric, NodeKind, Order, Profile, Restart, Scenario, Step, Variant,
    },
    units::{Bytes, Nanos},
};

mod hotplug;

fn profile(seconds: u64) -> Profile {
    Profile {
        name: "slow".into(),
        id: (0, 0),
        class: None,
        about: String::new(),
        source: String::new(),
        firmware: None,
        probe: vec![],
        shutdown: vec![Step::Wait(Nanos(seconds * 1_000_000_000))],
        remove: vec![],
        lock: None,
    }
}

fn scenario() -> Scenario {
    let device = |name: &str, parent, kind| Device {
        name: name.into(),
        parent,
        kind,
        profile: Some("slow".into()),
        names: None,
    };
    Scenario {
        name: "s".into(),
        about: String::new(),
        kernel: "6.1".into(),
        clock: Clock::Virtual,
        machine: MachineSpec {
            kind: MachineKind::Microvm,
            cpus: 4,
            memory: Bytes(512 << 20),
            backend: Backend::Qemu,
        },
        memory: None,
        walk: None,
        churn: None,
        devices: vec![
            device("port", None, NodeKind::RootPort),
            device("nic", Some(0), NodeKind::Endpoint),
        ],
        profiles: BTreeMap::from([("slow".into(), profile(13))]),
        links: vec![],
        first: vec![],
        meanwhile: vec![],
        sysctl: vec![],
        variants: vec![Variant {
            name: "serial".into(),
            series: None,
            patches: None,
            cmdline: vec!["device_shutdown_serial".into()],
            probing: Default::default(),
            order: Order::Serial,
            restart: Restart::Reset,
            max_tasks: None,
            unrecorded: false,
            options: Vec::new(),
            coldplug: None,
            systemd: None,
            swap: BTreeMap::new(),
        }],
        metrics: vec![Metric::DeviceShutdown],
        repeats: None,
        sweep: None,
        point: None,
        reference: None,
        expect: vec![],
        timeout: Nanos(60_000_000_000),
        hash: String::new(),
    }
}

fn trial(scenario: Scenario) -> Trial {
    Trial {
        role: crate::core::plan::Role::Measured,
        id: "s/serial/2".into(),
        index: 0,
        variant: 0,
        repeat: 2,
        clock: scenario.clock,
        kernel: KernelSpec {
            source: "6.1".into(),
            ..KernelSpec::default()
        },
        scenario: Arc::new(scenario),
    }
}

fn host(version: &str, accelerator: Accelerator) -> Host {
    let banner = format!("QEMU emulator version {version}");
    Host {
        qemu: Qemu {
            program: "/usr/bin/qemu-system-x86_64".into(),
            version: QemuVersion::parse(&banner).unwrap(),
            banner,
            sandbox: true,
        },
        accelerator,
        tsc_khz: Some(2_400_000),
    }
}

fn tcg() -> Accelerator {
    Accelerator::Tcg {
        why: "as asked".into(),
    }
}

fn files() -> BootFiles {
    BootFiles::below(
        Path::new("/tmp/a,b"),
        Path::new("/c/bzImage"),
        Path::new("/c/initrd"),
    )
}

fn line(host: &Host, trial: &Trial) -> Result<CommandLine, Fault> {
    let layout = lay_out(&trial.scenario.devices, &trial.scenario.machine).unwrap();
    command(host, &files(), trial, &layout)
}

/// One option a line.
fn check(line: &CommandLine, expect: &Expect) {
    expect.assert_eq(&line.to_string().replace(" -", "\n-"));
}

#[test]
fn virtual_time() {
    let line = line(&host("10.0.2", tcg()), &trial(scenario())).unwrap();
    assert_eq!((line.cpus, &line.notes[..]), (4, &[][..]));
    check(
        &line,
        &expect![[r#"
            /usr/bin/qemu-system-x86_64
            -no-user-config
            -nodefaults
            -display none
            -machine microvm,pcie=on,acpi=on,rtc=on,isa-serial=on,auto-kernel-cmdline=off,memory-backend=ram
            -accel tcg,thread=single
            -icount shift=1,sleep=off
            -rtc clock=vm,base=2024-01-01T00:00:00
            -cpu max,-rdrand,-rdseed,-monitor,vendor=GenuineIntel,family=6,model=79,stepping=1
            -seed 3
            -smp 4
            -m 512M
            -object memory-backend-ram,id=ram,size=512M,reserve=off
            -kernel /c/bzImage
            -initrd /c/initrd
            -append 'console=ttyS0 loglevel=5 panic=0 oops=panic nokaslr tsc=reliable tsc_early_khz=1000000 device_shutdown_serial'
            -chardev file,id=console,path=/tmp/a,,b/console
            -serial chardev:console
            -chardev file,id=channel,path=/tmp/a,,b/channel
            -device isa-debugcon,iobase=0x505,chardev=channel
            -device isa-debug-exit,iobase=0x501,iosize=0x04
            -no-reboot
            -qmp unix:/tmp/a,,b/qmp,server=on,wait=off
            -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
            -device pcie-root-port,id=b1,slot=1,hotplug=off,bus=pcie.0,addr=01.0
            -device pvpanic-pci,events=0,bus=b1,addr=00.0"#]],
    );
}

#[test]
fn wall_time() {
    let wall = Scenario {
        clock: Clock::Wall,
        ..scenario()
    };
    let words = |accelerator| {
        let line = line(&host("10.0.2", accelerator), &trial(wall.clone())).unwrap();
        let from = line.args.iter().position(|a| a == "-accel").unwrap();
        let append = line.args.iter().position(|a| a == "-append").unwrap();
        line.args[from..from + 8].join(" ") + "\n" + &line.args[append + 1]
    };
    expect![[r#"
        -accel tcg,thread=multi -rtc clock=host,base=2024-01-01T00:00:00 -cpu max,-rdrand,-rdseed,-monitor,vendor=GenuineIntel,family=6,model=79,stepping=1 -seed 3
        console=ttyS0 loglevel=5 panic=0 oops=panic nokaslr tsc=reliable tsc_early_khz=2400000 no_timer_check device_shutdown_serial"#]].assert_eq(&words(tcg()));
    expect![[r#"
        -accel kvm -rtc clock=host,base=2024-01-01T00:00:00 -cpu host -seed 3
        console=ttyS0 loglevel=5 panic=0 oops=panic nokaslr device_shutdown_serial"#]]
    .assert_eq(&words(Accelerator::Kvm));
}

#[test]
fn an_old_qemu_has_one_cpu_in_virtual_time_and_says_so() {
    let virtual_line = line(&host("7.2.22", tcg()), &trial(scenario())).unwrap();
    assert_eq!(virtual_line.cpus, 1);
    assert!(virtual_line.args.windows(2).any(|w| w == ["-smp", "1"]));
    expect![
        "1 CPU instead of 4: in virtual time QEMU 7.2.22 starts no second one (8.1.0 and newer do)"
    ]
    .assert_eq(&virtual_line.notes[0].to_string());
    let wall = line(
        &host("7.2.22", tcg()),
        &trial(Scenario {
            clock: Clock::Wall,
            ..scenario()
        }),
    )
    .unwrap();
    assert_eq!((wall.cpus, wall.notes.len()), (4, 0));
}

#[test]
fn an_initramfs_does_not_overwrite_acpi_tables() {
    let memory = |kind, mib: u64| {
        let mut scenario = scenario();
        scenario.machine.kind = kind;
        scenario.machine.memory = Bytes(mib << 20);
        let line = line(&host("10.0.2", tcg()), &trial(scenario)).unwrap();
        let at = line.args.iter().position(|a| a == "-m").unwrap();
        let notes: Vec<_> = line.notes.iter().map(ToString::to_string).collect();
        (line.args[at + 1].clone(), notes.join("; "))
    };
    let (size, note) = memory(MachineKind::Microvm, 2048);
    assert_eq!(size, "2047M");
    expect!["2047 MiB of memory instead of 2 GiB: at just that size QEMU loads a microvm's initramfs over its ACPI tables"].assert_eq(&note);
    for (kind, mib) in [
        (MachineKind::Microvm, 2047),
        (MachineKind::Microvm, 2049),
        (MachineKind::Microvm, 4096),
        (MachineKind::Q35, 2048),
    ] {
        assert_eq!(memory(kind, mib), (format!("{mib}M"), String::new()));
    }
}

#[test]
fn slow_devices_are_no_hung_tasks() {
    let words = |seconds| {
        let mut slow = scenario();
        slow.profiles.insert("slow".into(), profile(seconds));
        line(&host("10.0.2", tcg()), &trial(slow))
            .unwrap()
            .args
            .join(" ")
    };
    assert!(!words(49).contains("hung_task"));
    assert!(
        words(50).contains(" sysctl.kernel.hung_task_timeout_secs=200 "),
        "two devices of 50 s, twice over"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: fn(&mut Scenario)| {
        let mut bad = scenario();
        change(&mut bad);
        let fault = line(&host("10.0.2", tcg()), &trial(bad)).unwrap_err();
        assert_eq!(fault.exit, crate::core::fault::Exit::Usage);
        fault.message
    };
    expect!["variant serial of scenario s: the kernel command line has 2087 bytes and a kernel reads 2047: shorten `cmdline`"]
        .assert_eq(&refused(|s| s.variants[0].cmdline = vec!["x".repeat(2000)]));
    expect!["a machine has 1 to 255 CPUs, not 256"].assert_eq(&refused(|s| s.machine.cpus = 256));
    expect!["guest memory must be a whole number of MiB, not 1536 B"]
        .assert_eq(&refused(|s| s.machine.memory = Bytes(1536)));
    let many = refused(|s| {
        let leaf = Device {
            name: "x".into(),
            parent: None,
            kind: NodeKind::Endpoint,
            profile: None,
            names: None,
        };
        s.devices = vec![leaf; 40_000];
    });
    assert!(
        many.starts_with("scenario s: 40000 devices make a QEMU command line of "),
        "{many}"
    );
}

#[test]
fn a_person_can_type_it() {
    assert_eq!(shell_quote("a-b_c.d/e,f=g"), "a-b_c.d/e,f=g");
    assert_eq!(shell_quote("two words"), "'two words'");
    assert_eq!(shell_quote("it's $HOME"), r"'it'\''s $HOME'");
    assert_eq!(shell_quote(""), "''");
}

#[test]
fn shell_and_debugger() {
    let trial = trial(scenario());
    let layout = lay_out(&trial.scenario.devices, &trial.scenario.machine).unwrap();
    let line = interactive(
        &host("10.0.2", tcg()),
        &files().without_qmp(),
        &trial,
        &layout,
    )
    .unwrap()
    .to_string();
    assert!(line.contains("-chardev stdio,id=console,mux=on,signal=off -serial chardev:console -mon chardev=console,mode=readline"));
    assert!(
        line.contains("-chardev file,id=channel,path=/tmp/a,,b/channel") && !line.contains("-qmp")
    );
    assert_eq!(
        gdb_args(Path::new("/tmp/g,h")).unwrap(),
        ["-gdb", "unix:/tmp/g,,h,server=on,wait=off", "-S"]
    );
    expect![[r#"
        gdb /k/vmlinux -ex 'target remote /tmp/g' -ex 'hbreak start_kernel' -ex continue
        (names of functions only: bootrig's kernels are built without debug information)"#]]
    .assert_eq(&gdb_hint(Path::new("/k/vmlinux"), Path::new("/tmp/g")));
}
