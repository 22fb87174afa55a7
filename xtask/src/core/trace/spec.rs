// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tracer is told: its specification file (docs/tracer.md).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use super::symbols::{OUTLINED, Symbols, plain};
use crate::core::nearest::{likely, nearest};

/// Marked in every boot where the kernel has them, with the tracer's flags.
const MARKS: &[(&str, &str)] = &[
    ("start_kernel", "mw"),
    ("rest_init", "mw"),
    ("do_one_initcall", "mcw"),
    ("memory_dev_init", "mw"),
    ("driver_attach", "mw"),
    ("run_init_process", "mw"),
    // What user space reads before it triggers all devices, and when all are handled.
    ("uevent_seqnum_show", "mw"),
    ("kernel_restart", "mw"),
    ("kernel_kexec", "mw"),
    ("device_shutdown", "mw"),
    ("syscore_shutdown", "mw"),
    ("machine_restart", "mw"),
    ("machine_kexec", "mw"),
];
/// Windows that lie between marks.
const BETWEEN: [&str; 4] = ["boot", "all", "coldplug", "probe"];
/// Marks whose calls are borders of windows, or have a name of their own.
const NO_WINDOWS: [&str; 5] = [
    "start_kernel",
    "rest_init",
    "do_one_initcall",
    "run_init_process",
    "uevent_seqnum_show",
];
/// A window of an initcall is called so.
const INITCALL: &str = "initcall:";
/// What the core calls for each device of a bus at shutdown; the first argument is the device.
const SHUTDOWNS: &[&str] = &[
    "pci_device_shutdown",
    "platform_shutdown",
    "platform_drv_shutdown",
    "isa_bus_shutdown",
    "virtio_dev_shutdown",
    "i2c_device_shutdown",
    "spi_shutdown",
    "serial_base_shutdown",
    "scsi_bus_shutdown",
    "sd_shutdown",
];

/// What the tracer is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Count, follow calls, and mark.
    Profile,
    /// Only mark.
    Marks,
}

/// The specification, and how to read the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The file's text.
    pub text: String,
    /// The functions' names by the numbers that the tracer uses.
    pub names: Vec<String>,
    /// What is marked.
    pub marks: BTreeSet<String>,
}

/// So many names are offered in place of one that does not exist.
const NEAREST: usize = 5;

/// Whether the kernel with `symbols` has the functions `marks`.
///
/// # Errors
/// One that it does not have, with the nearest names.
pub fn check_marks(symbols: &Symbols, marks: &[String]) -> Result<(), String> {
    let all: BTreeSet<&str> = symbols.functions.iter().map(|f| f.name.as_str()).collect();
    for name in marks {
        if !all.contains(name.as_str()) {
            let mut near = likely(plain(name), all.iter().copied());
            near.truncate(NEAREST);
            let near = match near[..] {
                [] => String::new(),
                _ => format!("; did you mean `{}`?", near.join("`, `")),
            };
            return Err(format!(
                "the kernel has no function `{}`{near} (it may be inlined everywhere, or in a module)",
                name.escape_debug()
            ));
        }
    }
    Ok(())
}

/// Writes the specification for a kernel with `symbols`, with `extra` functions marked, where an
/// instruction takes `1 << shift` ns.
///
/// # Errors
/// A function of `extra` that the kernel does not have, with the nearest names.
pub fn spec(symbols: &Symbols, mode: Mode, shift: u32, extra: &[String]) -> Result<Spec, String> {
    check_marks(symbols, extra)?;
    let mut text = format!(
        "bootrig-tracer 1\nmode {}\nshift {shift}\ninit_task {:x}\ntext {:x} {:x}\n",
        match mode {
            Mode::Profile => "profile",
            Mode::Marks => "marks",
        },
        symbols.init_task.unwrap_or(0),
        symbols.text.0,
        symbols.text.1
    );
    let mut names: Vec<String> = Vec::new();
    // A function's cold part is elsewhere, but it is the function.
    let mut whole: BTreeMap<&str, Option<usize>> = BTreeMap::new();
    let parts = |name: &str| name.contains(".cold");
    for (index, function) in symbols.functions.iter().enumerate() {
        if !parts(&function.name) {
            whole
                .entry(&function.name)
                .and_modify(|of| *of = None)
                .or_insert(Some(index));
        }
    }
    let (mut ids, mut marks) = (BTreeMap::new(), BTreeSet::new());
    for (index, function) in symbols.functions.iter().enumerate() {
        let name = function.name.as_str();
        let cold = name.find(".cold").map(|at| &name[..at]);
        let owner = cold.and_then(|of| whole.get(of).copied().flatten());
        let owner = owner.unwrap_or(index);
        let id = *ids.entry(owner).or_insert_with(|| {
            names.push(symbols.functions[owner].name.clone());
            names.len() - 1
        });
        let mut flags = flags(&symbols.functions[owner].name, extra);
        if flags.contains('m') {
            marks.insert(symbols.functions[owner].name.clone());
        }
        // A marked function may return from its cold part, but nobody enters it there.
        if owner != index {
            flags = if flags.contains('m') {
                "p".into()
            } else {
                String::new()
            };
        }
        let flags = if flags.is_empty() { "-" } else { &flags };
        let _ = writeln!(text, "fn {:x} {id} {flags}", function.address);
    }
    Ok(Spec { text, names, marks })
}

/// Whether a boot can have the window `name`, with the functions `extra` marked.
///
/// # Errors
/// It cannot: with what windows there are, the nearest first.
pub fn check_window(name: &str, extra: &[String]) -> Result<(), String> {
    let mut all: Vec<&str> = BETWEEN.to_vec();
    let calls = MARKS.iter().map(|m| m.0);
    all.extend(calls.filter(|m| !NO_WINDOWS.contains(m)));
    all.extend(extra.iter().map(String::as_str));
    // The second call of a function, and so on.
    let one = match name.rsplit_once('#') {
        Some((one, number)) if number.parse::<u32>().is_ok_and(|n| n > 1) => one,
        _ => name,
    };
    let initcall = one.strip_prefix(INITCALL).is_some_and(|of| !of.is_empty());
    if initcall || (!one.is_empty() && all.contains(&one)) {
        return Ok(());
    }
    let near = nearest(name, all.iter().copied());
    let rest = all.iter().copied().filter(|w| Some(*w) != near);
    let windows: Vec<&str> = near.into_iter().chain(rest).collect();
    Err(format!(
        "there is no window `{}`; windows are {}, {INITCALL}NAME, and each function that --mark names",
        name.escape_debug(),
        windows.join(", ")
    ))
}

fn flags(name: &str, extra: &[String]) -> String {
    let mut flags = String::new();
    let vector = name.strip_prefix("asm_exc_");
    const WITH_CODE: [&str; 8] = [
        "page_fault",
        "general_protection",
        "double_fault",
        "invalid_tss",
        "segment_not_present",
        "stack_segment",
        "alignment_check",
        "control_protection",
    ];
    match vector {
        Some("nmi") => flags.push('i'),
        Some(vector) if WITH_CODE.contains(&vector) => flags.push('y'),
        Some(_) => flags.push('x'),
        None => {}
    }
    // Entries one behind the other, without names of their own.
    const TABLES: [&str; 3] = [
        "irq_entries_start",
        "spurious_entries_start",
        "early_idt_handler_array",
    ];
    let interrupt = name.starts_with("asm_sysvec_")
        || [
            "irq_entries_start",
            "spurious_entries_start",
            "asm_common_interrupt",
            "asm_spurious_interrupt",
        ]
        .contains(&name);
    let thunk = name.starts_with("__x86_indirect_")
        || name.starts_with("__x86_return_")
        || [
            "__x86_return_thunk",
            "retbleed_return_thunk",
            "srso_return_thunk",
        ]
        .contains(&name);
    for (is, flag) in [
        (interrupt, 'i'),
        (name == "early_idt_handler_array", 'y'),
        (TABLES.contains(&name), 'v'),
        (name == "__switch_to_asm", 's'),
        (["ret_from_fork", "ret_from_fork_asm"].contains(&name), 'f'),
        (thunk || name == OUTLINED, 't'),
        (name == OUTLINED, 'o'),
        (name == "start_kernel", 'k'),
        (name == "machine_kexec", 'K'),
        (name == "do_init_module", 'l'),
        (SHUTDOWNS.contains(&name), 'd'),
    ] {
        if is {
            flags.push(flag);
        }
    }
    let fixed = MARKS.iter().find(|(mark, _)| *mark == name).map(|m| m.1);
    flags += fixed.unwrap_or_default();
    if fixed.is_none() && (SHUTDOWNS.contains(&name) || extra.iter().any(|e| e == name)) {
        flags.push('m');
        if extra.iter().any(|e| e == name) {
            flags.push('w');
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::{super::symbols::tests::map, *};

    fn symbols(names: &[&str]) -> Symbols {
        Symbols::read(map(names).as_bytes()).unwrap()
    }

    #[test]
    fn functions_with_their_parts_and_what_is_special() {
        let symbols = symbols(&[
            "start_kernel",
            "f",
            "f.cold",
            "asm_exc_page_fault",
            "asm_exc_divide_error",
            "irq_entries_start",
            "early_idt_handler_array",
            "asm_sysvec_apic_timer_interrupt",
            "__switch_to_asm",
            "pci_device_shutdown",
            "twin",
            "twin",
            "twin.cold",
        ]);
        let spec = spec(&symbols, Mode::Profile, 1, &["f".into()]).unwrap();
        let lines: Vec<_> = spec.text.lines().skip(5).take(14).collect();
        assert_eq!(
            lines,
            [
                "fn ffffffff81000000 0 -",
                "fn ffffffff81000010 1 kmw",
                "fn ffffffff81000020 2 mw",
                "fn ffffffff81000030 2 p",
                "fn ffffffff81000040 3 y",
                "fn ffffffff81000050 4 x",
                "fn ffffffff81000060 5 iv",
                "fn ffffffff81000070 6 yv",
                "fn ffffffff81000080 7 i",
                "fn ffffffff81000090 8 s",
                "fn ffffffff810000a0 9 dm",
                "fn ffffffff810000b0 10 -",
                "fn ffffffff810000c0 11 -",
                // Whose part it is cannot be told.
                "fn ffffffff810000d0 12 -",
            ]
        );
        assert_eq!(spec.names[2], "f");
        assert!(spec.marks.contains("f") && spec.marks.contains("pci_device_shutdown"));
    }

    #[test]
    fn a_window_that_no_boot_can_have_is_refused_with_those_there_are() {
        let marked = ["my_function".to_owned(), String::new()];
        for good in [
            "all",
            "boot",
            "device_shutdown",
            "driver_attach#2",
            "memory_dev_init",
            "initcall:pci_subsys_init",
            "my_function",
            "my_function#12",
        ] {
            assert_eq!(check_window(good, &marked), Ok(()), "{good}");
        }
        for (bad, want) in [
            ("boto", "no window `boto`; windows are boot, all,"),
            ("device_shutdwon", "windows are device_shutdown, boot,"),
            ("initcall:", "initcall:NAME, and each function"),
            ("start_kernel", "no window `start_kernel`"),
            ("boot#x", "no window `boot#x`"),
            ("", "no window ``"),
            ("other_function", "windows are my_function, boot,"),
        ] {
            let why = check_window(bad, &marked).unwrap_err();
            assert!(why.contains(want), "{why}");
        }
    }

    #[test]
    fn an_unknown_mark_is_refused_with_the_nearest_names() {
        let symbols = symbols(&["device_shutdown", "nvme_shutdown_all"]);
        let error = spec(&symbols, Mode::Marks, 1, &["device_shutdwon".into()]).unwrap_err();
        assert!(error.contains("did you mean `device_shutdown`"), "{error}");
        let error = spec(&symbols, Mode::Marks, 1, &["shutdown".into()]).unwrap_err();
        assert!(
            error.contains("`device_shutdown`") && error.contains("`nvme_shutdown_all`"),
            "{error}"
        );
        let error = spec(&symbols, Mode::Marks, 1, &["nvme".into()]).unwrap_err();
        assert!(error.contains("`nvme_shutdown_all`"), "{error}");
    }
}
