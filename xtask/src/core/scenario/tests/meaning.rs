// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said of files of the right shape that mean something impossible, word for word.

use expect_test::expect;

use super::*;

#[test]
fn unknown_names() {
    check(
        "profile: ixgbe-x540",
        "profile: ixgb",
        expect![[r#"
        x.yaml:6:28: unknown profile `ixgb` in devices[1].profile; did you mean `ixgbe-x540`?
    "#]],
    );
    check(
        "profile: ixgbe-x540",
        "profile: qqq",
        expect![[r#"
        x.yaml:6:28: unknown profile `qqq` in devices[1].profile; valid: ixgbe-x540, mlx4, mlx4-fast
    "#]],
    );
    check(
        "series: parallel-shutdown",
        "series: paralel-shutdown",
        expect![[r#"
        x.yaml:12:22: unknown series `paralel-shutdown` in variants.parallel.series; did you mean `parallel-shutdown`?
    "#]],
    );
    check(
        "order: serial",
        "order: serial, swap: {mlx5: mlx4-fast}",
        expect![[r#"
        x.yaml:11:33: no device has the profile `mlx5` that variants.stock.swap.mlx5 replaces; did you mean `mlx4`?
    "#]],
    );
    check(
        "order: serial",
        "order: serial, swap: {mlx4: mlx4-fats}",
        expect![[r#"
        x.yaml:11:39: unknown profile `mlx4-fats` in variants.stock.swap.mlx4; did you mean `mlx4-fast`?
    "#]],
    );
    check(
        "order: serial",
        "order: serial, swap: {mlx4: mlx4}",
        expect![[r#"
        x.yaml:11:39: variants.stock.swap.mlx4 replaces `mlx4` by itself
    "#]],
    );
    check(
        "{stock: 2.95 s}",
        "{stok: 2.95 s}",
        expect![[r#"
        x.yaml:16:21: unknown variant `stok` in reference.device_shutdown.stok; did you mean `stock`?
    "#]],
    );
    check(
        "{ixgbe: 0.37 s}",
        "{ixgb: 0.37 s}",
        expect![[r#"
        x.yaml:17:13: no device is called `ixgb` as reference.devices.ixgb says; did you mean `ixgbe`?
    "#]],
    );
    check(
        "variant: parallel",
        "variant: paralell",
        expect![[r#"
        x.yaml:19:15: unknown variant `paralell` in expect[0].variant; did you mean `parallel`?
    "#]],
    );
    check(
        "of: ideal",
        "of: idael",
        expect![[r#"
            x.yaml:19:67: expect[0].of takes ideal, a duration or a variant, not `idael`; did you mean `ideal`?
        "#]],
    );
    check(
        "of: ideal",
        "of: stok",
        expect![[r#"
            x.yaml:19:67: expect[0].of takes ideal, a duration or a variant, not `stok`; did you mean `stock`?
        "#]],
    );
    check_devices(
        "  - {name: a, profile: mlx4, parent: sv}\n  - {name: sw, type: bridge}",
        expect![[r#"
            x.yaml:5:38: unknown device `sv` in devices[0].parent; did you mean `sw`?
        "#]],
    );
}

#[test]
fn impossible_values() {
    check(
        "cpus: 2",
        "cpus: 0",
        expect![[r#"
        x.yaml:3:17: machine.cpus must be 1 to 64, not 0
    "#]],
    );
    check(
        "cpus: 2",
        "cpus: 65",
        expect![[r#"
        x.yaml:3:17: machine.cpus must be 1 to 64, not 65
    "#]],
    );
    check(
        "512 MiB",
        "32 MiB",
        expect![[r#"
        x.yaml:3:28: machine.memory must be 64 MiB (less does not boot) to 960 GiB, not 32 MiB
    "#]],
    );
    check(
        "512 MiB",
        "17 TiB",
        expect![[r#"
        x.yaml:3:28: machine.memory must be 64 MiB (less does not boot) to 960 GiB, not 17 TiB
    "#]],
    );
    check(
        "count: 2",
        "count: 0",
        expect![[r#"
        x.yaml:6:47: devices[1].count is 0; leave the device out instead
        x.yaml:17:13: no device is called `ixgbe` as reference.devices.ixgbe says; valid: mlx4, nic, sw
    "#]],
    );
    check("count: 2", "count: 16385", expect!["no error"]);
    check(
        "measure:",
        "repeats: 0\nmeasure:",
        expect![[r#"
        x.yaml:13:10: repeats must be 1 to 10000, not 0
    "#]],
    );
    check(
        "measure:",
        "repeats: 10001\nmeasure:",
        expect![[r#"
        x.yaml:13:10: repeats must be 1 to 10000, not 10001
    "#]],
    );
    check(
        "measure:",
        "timeout: 5 ms\nmeasure:",
        expect![[r#"
        x.yaml:13:10: timeout: no guest boots within 5.000 ms; give it 1 s or more
    "#]],
    );
    check(
        "[boot, device_shutdown]",
        "[]",
        expect![[r#"
            x.yaml:13:10: measure is empty; name what to record
        "#]],
    );
    check(
        "[boot, device_shutdown]",
        "[boot, device_shutdown, boot]",
        expect![[r#"
        x.yaml:13:34: measure[2]: `boot` is measured already
    "#]],
    );
    check(
        "about: a test",
        "about: \" \"",
        expect![[r#"
        x.yaml:1:8: about is empty; say what this is
    "#]],
    );
}

#[test]
fn names_become_file_names() {
    check(
        "name: mlx4,",
        "name: ../mlx4,",
        expect![[r#"
        x.yaml:5:12: devices[0].name: `../mlx4` is no name; use small letters, digits, `.`, `_` and `-`, beginning with a letter or digit
    "#]],
    );
    check(
        "name: mlx4,",
        "name: MLX4,",
        expect![[r#"
        x.yaml:5:12: devices[0].name: `MLX4` is no name; use small letters, digits, `.`, `_` and `-`, beginning with a letter or digit
    "#]],
    );
    check(
        "name: mlx4,",
        "name: 82599,",
        expect![[r#"
        x.yaml:5:12: devices[0].name takes a name, not the number 82599; put it in quotes: "82599"
    "#]],
    );
    check(
        "name: mlx4,",
        "name: \"\",",
        expect![[r#"
        x.yaml:5:12: devices[0].name: `` is no name; use small letters, digits, `.`, `_` and `-`, beginning with a letter or digit
    "#]],
    );
    check(
        "  stock: {order",
        "  st/ock: {order",
        expect![[r#"
        x.yaml:11:3: variants.st/ock: `st/ock` is no name; use small letters, digits, `.`, `_` and `-`, beginning with a letter or digit
        x.yaml:16:21: unknown variant `stock` in reference.device_shutdown.stock; did you mean `st/ock`?
    "#]],
    );
    check(
        "  stock: {order",
        "  ideal: {order",
        expect![[r#"
        x.yaml:11:3: variants.ideal: a variant must begin with a letter and not be called `ideal`
        x.yaml:16:21: unknown variant `stock` in reference.device_shutdown.stock; valid: ideal, parallel
    "#]],
    );
    check(
        "  stock: {order",
        "  2nd: {order",
        expect![[r#"
        x.yaml:11:3: variants.2nd: a variant must begin with a letter and not be called `ideal`
        x.yaml:16:21: unknown variant `stock` in reference.device_shutdown.stock; valid: 2nd, parallel
    "#]],
    );
    check(
        "\"6.1\"",
        "\"../6.1\"",
        expect![[r#"
        x.yaml:2:9: kernel: `../6.1` is no name; use small letters, digits, `.`, `_` and `-`, beginning with a letter or digit
    "#]],
    );
    check(
        "name: mlx4,",
        &format!("name: {},", "a".repeat(65)),
        expect![[r#"
        x.yaml:5:12: devices[0].name has 65 letters; the limit is 64
    "#]],
    );
    let error = parse("scenarios/My Test.yaml", BASE, known()).unwrap_err();
    expect!["scenarios/My Test.yaml:1:1: the file's name: `My Test` is no name; use small letters, digits, `.`, `_` and `-`, beginning with a letter or digit"].assert_eq(&error.to_string());
}

#[test]
fn expectations() {
    check(
        "metric: device_shutdown",
        "metric: probe",
        expect![[r#"
        x.yaml:19:33: expect[0].metric: `probe` is not measured; add it to `measure` (now boot, device_shutdown)
    "#]],
    );
    check(
        "[boot, device_shutdown]",
        "[boot]",
        expect![[r#"
        x.yaml:16:20: reference.device_shutdown: `device_shutdown` is not measured; add it to `measure` (now boot)
        x.yaml:19:33: expect[0].metric: `device_shutdown` is not measured; add it to `measure` (now boot)
    "#]],
    );
    check(
        "metric: device_shutdown",
        "metric: boot",
        expect![[r#"
            x.yaml:19:56: expect[0].of: `boot` has no ideal; only device_shutdown, probe and bound do
        "#]],
    );
    check(
        "of: ideal",
        "of: parallel",
        expect![[r#"
        x.yaml:19:67: expect[0].of compares `parallel` with itself
    "#]],
    );
    check(
        "of: ideal",
        "of: 5 parsec",
        expect![[r#"
        x.yaml:19:67: expect[0].of: `5 parsec` is no duration: unit `parsec` is none of ns, us, ms, s, min
    "#]],
    );
    let twice =
        "of: ideal}\n  - {variant: parallel, metric: device_shutdown, within: 3 %, of: ideal}";
    check(
        "of: ideal}",
        twice,
        expect![[r#"
        x.yaml:20:5: expect[1] says of the same values what an earlier one says
    "#]],
    );
}

#[test]
fn command_lines() {
    check(
        "[a=1]",
        "[a b]",
        expect![[r#"
        x.yaml:12:51: variants.parallel.cmdline[0]: `a b` has a space in it; give each word an item of its own
    "#]],
    );
    check(
        "[a=1]",
        "[console=tty0, init=/bin/sh, rdinit=/x, panic=0, quiet]",
        expect![[r#"
        x.yaml:12:51: variants.parallel.cmdline[0]: `console=tty0` is set by bootrig: the console is watched for panics and splats
        x.yaml:12:65: variants.parallel.cmdline[1]: `init=/bin/sh` is set by bootrig: PID 1 is the rig's own
        x.yaml:12:79: variants.parallel.cmdline[2]: `rdinit=/x` is set by bootrig: PID 1 is the rig's own
        x.yaml:12:90: variants.parallel.cmdline[3]: `panic=0` is set by bootrig: how the machine ends is how a failure is told from a result
        x.yaml:12:99: variants.parallel.cmdline[4]: `quiet` is set by bootrig: a quiet console hides what the oracle looks for
    "#]],
    );
    check(
        "[a=1]",
        "['--', '', 'a=\"b', \"a\\nb\"]",
        expect![[r#"
        x.yaml:12:51: variants.parallel.cmdline[0]: `--` would hand the rest of the line to PID 1
        x.yaml:12:57: variants.parallel.cmdline[1]: `` is empty
        x.yaml:12:61: variants.parallel.cmdline[2]: `a="b` has a character that the kernel does not take literally
        x.yaml:12:69: variants.parallel.cmdline[3]: `a�b` has a space in it; give each word an item of its own
    "#]],
    );
    check(
        "[a=1]",
        &format!("[a={}]", "x".repeat(1030)),
        expect![[r#"
        x.yaml:12:50: variants.parallel.cmdline has 1033 bytes; the limit is 1024, as longer command lines get cut
    "#]],
    );
}

#[test]
fn trees() {
    check_devices(
        "  - {name: a, profile: mlx4}\n  - {name: a, profile: mlx4}",
        expect![[r#"
        x.yaml:6:5: devices[1]: device `a` is there already (line 5)
    "#]],
    );
    check_devices(
        "  - {name: a, profile: mlx4, count: 2}\n  - {name: a.1, profile: mlx4}",
        expect![[r#"
        x.yaml:6:5: devices[1]: device `a.1` is there already (line 5)
    "#]],
    );
    check_devices(
        "  - {name: a}",
        expect![[r#"
        x.yaml:5:5: `profile` is missing in devices[0]: only a bridge or root port can do without
    "#]],
    );
    check_devices(
        "  - {name: a, profile: mlx4, devices: [{name: b, profile: mlx4}]}",
        expect![[r#"
        x.yaml:5:39: devices[0].devices: `a` is an endpoint and has nothing below it; give it `type: bridge` or `type: root-port`
    "#]],
    );
    check_devices(
        "  - {name: a, profile: mlx4}\n  - {name: b, profile: mlx4, parent: a}",
        expect![[r#"
            x.yaml:6:38: devices[1].parent: `a` is an endpoint and has nothing below it
        "#]],
    );
    let cycle = "  - {name: a, type: bridge, parent: c}
  - {name: x, profile: mlx4, parent: a}
  - {name: b, type: bridge, parent: a}
  - {name: c, type: bridge, parent: b}";
    check_devices(
        cycle,
        expect![[r#"
        x.yaml:5:5: devices[0]: the devices form a cycle, each below the next: a -> c -> b -> a
    "#]],
    );
    check_devices(
        "  - {name: a, type: bridge, parent: a}",
        expect![[r#"
        x.yaml:5:5: devices[0]: the devices form a cycle, each below the next: a -> a
    "#]],
    );
    check_devices(
        "  - {name: a, type: bridge, devices: [{name: b, type: root-port}]}",
        expect![[r#"
        x.yaml:5:39: devices[0].devices[0]: root port `b` must be on the root bus; use `type: bridge` below another
    "#]],
    );
    check_devices(
        "  - {name: a, type: bridge, devices: [{name: b, profile: mlx4, parent: a}]}",
        expect![[r#"
        x.yaml:5:72: devices[0].devices[0].parent: `b` is nested, which says already what is above it; leave `parent` out
    "#]],
    );
    check_devices(
        "  - {name: a, type: root-port, devices: [{name: b, profile: mlx4, count: 9}]}",
        expect![[r#"
            x.yaml:5:5: devices[0]: `a` has room for 8 devices right below it, not for 9
        "#]],
    );
    let huge = "  - {name: a, type: bridge, count: 4000000000, devices: [
    {name: b, type: bridge, count: 4000000000, devices: [{name: c, profile: mlx4, count: 4000000000}]}]}";
    check_devices(
        huge,
        expect![[r#"
            x.yaml:5:3: devices: far too many devices in all; no machine holds more than 65536
        "#]],
    );
    let deep: String = (1..9)
        .map(|n| format!("  - {{name: b{n}, type: bridge, parent: b{}}}\n", n - 1))
        .collect();
    check_devices(
        &format!("  - {{name: b0, type: bridge}}\n{deep}"),
        expect![[r#"
        x.yaml:12:5: devices[7]: `b7` is on level 8; the limit is 7
    "#]],
    );
}

#[test]
fn steps() {
    check_step(
        "{}",
        expect![[r#"
            x.yaml:21:56: profiles.p.shutdown[0] must have exactly one of sleep, wait, poll (with every), busy, compute and thread; each step is a list item of its own
        "#]],
    );
    check_step(
        "{sleep: 1 s, wait: 1 s}",
        expect![[r#"
            x.yaml:21:56: profiles.p.shutdown[0] must have exactly one of sleep, wait, poll (with every), busy, compute and thread; each step is a list item of its own
        "#]],
    );
    check_step(
        "{poll: 1 s}",
        expect![[r#"
        x.yaml:21:56: profiles.p.shutdown[0] polls but does not say how often; add `every: 5 ms`
    "#]],
    );
    check_step(
        "{every: 1 s}",
        expect![[r#"
            x.yaml:21:56: profiles.p.shutdown[0] must have exactly one of sleep, wait, poll (with every), busy, compute and thread; each step is a list item of its own
        "#]],
    );
    check_step(
        "{poll: 0 s, every: 1 ms}",
        expect![[r#"
        x.yaml:21:63: profiles.p.shutdown[0].poll is zero; leave it out instead
    "#]],
    );
    check_step(
        "{poll: 1 s, every: 0 ms}",
        expect![[r#"
        x.yaml:21:75: profiles.p.shutdown[0].every is zero; leave it out instead
    "#]],
    );
    check_step(
        "{poll: 1 s, every: 2 s}",
        expect![[r#"
        x.yaml:21:75: profiles.p.shutdown[0].every: the pause of 2.000 s is longer than the 1.000 s polled for
    "#]],
    );
    check_step(
        "{poll: 1 s, every: 1500 ns}",
        expect![[r#"
        x.yaml:21:75: profiles.p.shutdown[0].every: the kernel takes whole multiples of 1 us here, not 1500 ns
    "#]],
    );
    check_step(
        "{sleep: 1.5 ms}",
        expect![[r#"
        x.yaml:21:64: profiles.p.shutdown[0].sleep: the kernel takes whole multiples of 1 ms here, not 1500 us
    "#]],
    );
    check_step(
        "{nap: 1 s}",
        expect![[r#"
            x.yaml:21:57: unknown key `profiles.p.shutdown[0].nap`; valid: busy, compute, every, poll, sleep, thread, wait
        "#]],
    );
    check_step(
        "sleep 1 s",
        expect![[r#"
        x.yaml:21:56: profiles.p.shutdown[0] takes a mapping, not `sleep 1 s`
    "#]],
    );
    check_step(
        "{wait: 40 min}, {wait: 40 min}",
        expect![[r#"
        x.yaml:21:55: profiles.p.shutdown waits 4800.0 s in all; the limit is 1 h
    "#]],
    );
    check_step(
        &["{wait: 1 s}"; 17].join(", "),
        expect![[r#"
        x.yaml:21:55: profiles.p.shutdown has 17 steps; the limit is 16
    "#]],
    );
}

#[test]
fn profiles() {
    check_profile(
        "{id: \"15b31003\", about: x, source: x}",
        expect![[r#"
        x.yaml:21:11: profiles.p.id takes vendor:device as lspci -n prints them, such as `15b3:1003`, not `15b31003`
    "#]],
    );
    check_profile(
        "{id: \"ffff:0001\", about: x, source: x}",
        expect![[r#"
        x.yaml:21:11: profiles.p.id: no device has the vendor ID of `ffff:0001`
    "#]],
    );
    check_profile(
        "{id: \"15b3:1003\", class: \"0102\", about: x, source: x}",
        expect![[r#"
            x.yaml:21:31: profiles.p.class takes six hexadecimal digits: class, subclass and programming interface, such as `010802`, not `0102`
        "#]],
    );
    check_profile(
        "{id: \"15b3:1003\", class: \"060400\", about: x, source: x}",
        expect![[r#"
            x.yaml:21:31: profiles.p.class: `060400` is a bridge's class; leave it out, `type` says what is a bridge
        "#]],
    );
    check_profile(
        "{id: \"15b3:1003\", about: x}",
        expect![[r#"
            x.yaml:21:6: `source` is missing in profiles.p; it takes text
        "#]],
    );
    check_profile(
        "{id: \"15b3:1003\", about: x, source: x, lock: RT NL}",
        expect![[r#"
        x.yaml:21:51: profiles.p.lock: `RT NL` is no name; use small letters, digits, `.`, `_` and `-`, beginning with a letter or digit
    "#]],
    );
    let other = "profiles:\n  mlx4: {id: \"15b3:1003\", about: x, source: x}\n";
    check_text(
        &format!("{BASE}{other}"),
        expect![[r#"
        x.yaml:21:3: profile `mlx4` means something else in profiles.yaml; name profiles.mlx4 otherwise
    "#]],
    );
    let error = parse_profiles("profiles.yaml", "a: {id: 5}\nb: 7\n").unwrap_err();
    expect![[r#"
        profiles.yaml:1:4: `about` is missing in a; it takes text
        profiles.yaml:1:4: `source` is missing in a; it takes text
        profiles.yaml:1:9: a.id takes a PCI ID such as `15b3:1003`, not the number 5
        profiles.yaml:2:4: b takes a mapping, not the number 7"#]]
    .assert_eq(&error.to_string());
}

/// What stands beside the tree, put before the variants.
#[test]
fn beside_the_tree() {
    for (given, expect) in [
        (
            "links: [{consumer: mlx, supplier: ixgbe.0}]",
            expect![[r#"
                x.yaml:10:20: unknown device `mlx` in links[0].consumer; did you mean `mlx4`?
            "#]],
        ),
        (
            "links: [{consumer: mlx4, supplier: mlx4}]",
            expect![[r#"
                x.yaml:10:9: links[0]: `mlx4` cannot depend on itself
            "#]],
        ),
        (
            "links: [{consumer: mlx4, supplier: ixgbe.0}, {consumer: mlx4, supplier: ixgbe.0, sync_state_only: true}]",
            expect![[r#"
                x.yaml:10:46: links[1]: `mlx4` and `ixgbe.0` are linked already
            "#]],
        ),
        (
            "links: [{consumer: mlx4, supplier: ixgbe.0}, {consumer: ixgbe.0, supplier: ixgbe.1}, {consumer: ixgbe.1, supplier: mlx4}]",
            expect![[r#"
                x.yaml:10:86: links[2]: a link cycle that cannot be built: `mlx4` is shut down before `ixgbe.1` already, by the tree or by earlier links; only `sync_state_only: true` may close a cycle
            "#]],
        ),
        (
            "links: [{consumer: mlx4, supplier: ixgbe.0}, {consumer: ixgbe.0, supplier: mlx4, sync_state_only: true}]",
            expect!["no error"],
        ),
        (
            "first: [mlx4, ixgbe.9, mlx4]",
            expect![[r#"
            x.yaml:10:15: unknown device `ixgbe.9` in first[1]; did you mean `ixgbe.0`?
            x.yaml:10:24: first[2]: `mlx4` is named already
        "#]],
        ),
        (
            "meanwhile: [{after: 2 ms, remove: mlx4}, {after: 1 ms, kill: true}]",
            expect![[r#"
                x.yaml:10:42: meanwhile[1] comes before the entry above it; order them by time
            "#]],
        ),
        (
            "meanwhile: [{after: 1 ms}, {after: 1 ms, kill: false}, {after: 1 ms, kill: true, rescan: true}]",
            expect![[r#"
                x.yaml:10:13: meanwhile[0] must have exactly one of remove, `rescan: true` and `kill: true`
                x.yaml:10:28: meanwhile[1] must have exactly one of remove, `rescan: true` and `kill: true`
                x.yaml:10:56: meanwhile[2] must have exactly one of remove, `rescan: true` and `kill: true`
            "#]],
        ),
        (
            "sysctl: {threads-max: \"1\"}",
            expect![[r#"
            x.yaml:10:10: sysctl.threads-max: `threads-max` is no setting; write it as sysctl does, `kernel.threads-max`
        "#]],
        ),
        (
            "sysctl: {kernel.threads-max: \"1 2\"}",
            expect![[r#"
            x.yaml:10:30: sysctl.kernel.threads-max takes one word of at most 64 letters, not `1 2`
        "#]],
        ),
    ] {
        check("variants:", &format!("{given}\nvariants:"), expect);
    }
}

#[test]
fn tolerances() {
    for (given, expect) in [
        (
            "within: 1 %, at_most: 105 %",
            expect![[r#"
            x.yaml:19:5: expect[0] must have exactly one of within (with or without `or`) and at_most
        "#]],
        ),
        (
            "at_most: 105 %, or: 1 ms",
            expect![[r#"
            x.yaml:19:5: expect[0] must have exactly one of within (with or without `or`) and at_most
        "#]],
        ),
        (
            "within: 120 %",
            expect![[r#"
            x.yaml:19:58: expect[0].within: more than 100 % holds of everything
        "#]],
        ),
        ("within: 1 %, or: 10 ms", expect!["no error"]),
        ("at_most: 105 %", expect!["no error"]),
    ] {
        check("within: 2 %", given, expect);
    }
}
