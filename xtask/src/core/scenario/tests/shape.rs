// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said of files whose YAML, keys, types or words are wrong, word for word.

use expect_test::expect;

use super::*;

#[test]
fn base_is_good() {
    check_text(BASE, expect!["no error"]);
}

#[test]
fn keys() {
    check(
        "cpus: 2",
        "cpu: 2",
        expect![[r#"
            x.yaml:3:10: `cpus` is missing in machine; it takes a whole number
            x.yaml:3:11: unknown key `machine.cpu`; did you mean `cpus`?
        "#]],
    );
    check(
        "about:",
        "abuot:",
        expect![[r#"
            x.yaml:1:1: unknown key `abuot`; did you mean `about`?
            x.yaml:1:1: `about` is missing; it takes text
        "#]],
    );
    check(
        "kernel: \"6.1\"\n",
        "",
        expect![[r#"
            x.yaml:1:1: `kernel` is missing; it takes a name
        "#]],
    );
    check(
        "profile: mlx4}",
        "profile: mlx4, profile: mlx4}",
        expect![[r#"
        x.yaml:5:33: key `profile` is given twice
    "#]],
    );
    check(
        "  stock: {order: serial}",
        "  stock: {order: serial}\n  stock: {order: serial}",
        expect![[r#"
        x.yaml:12:3: key `stock` is given twice
    "#]],
    );
    check(
        "measure:",
        "zzz: 1\nmeasure:",
        expect![[r#"
            x.yaml:13:1: unknown key `zzz`; valid: churn, clock, first, links, meanwhile, memory, profiles, repeats, sweep, sysctl, timeout, walk
        "#]],
    );
    check(
        "  source: a report\n",
        "",
        expect![[r#"
            x.yaml:15:3: `source` is missing in reference; it takes text
        "#]],
    );
    check(
        "device_shutdown: {stock",
        "device_shutdwn: {stock",
        expect![[r#"
            x.yaml:16:3: unknown key `reference.device_shutdwn`; did you mean `device_shutdown`?
        "#]],
    );
}

#[test]
fn types() {
    check(
        "\"6.1\"",
        "6.1",
        expect![[r#"
        x.yaml:2:9: kernel takes a name, not the number 6.1; put it in quotes: "6.1"
    "#]],
    );
    check(
        "cpus: 2",
        "cpus: two",
        expect![[r#"
        x.yaml:3:17: machine.cpus takes a whole number, not `two`
    "#]],
    );
    check(
        "cpus: 2",
        "cpus: 2.5",
        expect![[r#"
        x.yaml:3:17: machine.cpus takes a whole number, not the number 2.5
    "#]],
    );
    check(
        "cpus: 2",
        "cpus: -1",
        expect![[r#"
        x.yaml:3:17: machine.cpus takes a whole number up to 4294967295, not -1
    "#]],
    );
    check(
        "cpus: 2",
        "cpus: 99999999999",
        expect![[r#"
        x.yaml:3:17: machine.cpus takes a whole number up to 4294967295, not 99999999999
    "#]],
    );
    check(
        "cpus: 2",
        "cpus: \"2\"",
        expect![[r#"
            x.yaml:3:17: machine.cpus takes a whole number, not text; leave the quotes out: 2
        "#]],
    );
    check(
        "memory: 512 MiB",
        "memory: 512",
        expect![[r#"
        x.yaml:3:28: machine.memory takes a size such as `512 MiB`, not the number 512
    "#]],
    );
    check(
        "count: 2",
        "count:",
        expect![[r#"
        x.yaml:6:45: devices[1].count has no value; give it a whole number or leave the key out
    "#]],
    );
    check(
        "[boot, device_shutdown]",
        "boot",
        expect![[r#"
        x.yaml:13:10: measure takes a list, not `boot`
    "#]],
    );
    check(
        "{cpus: 2, memory: 512 MiB}",
        "[2, 512 MiB]",
        expect![[r#"
        x.yaml:3:10: machine takes a mapping, not a list
    "#]],
    );
    check(
        "[a=1]",
        "[[a=1]]",
        expect![[r#"
        x.yaml:12:51: variants.parallel.cmdline[0] takes text, not a list
    "#]],
    );
    check(
        "about: a test",
        "about: true",
        expect![[r#"
            x.yaml:1:8: about takes text, not the truth value true
        "#]],
    );
    check(
        "order: serial",
        "order: 1",
        expect![[r#"
        x.yaml:11:18: variants.stock.order takes one of serial, parallel, not the number 1
    "#]],
    );
}

#[test]
fn words() {
    check(
        "[boot,",
        "[bot,",
        expect![[r#"
        x.yaml:13:11: measure[0] cannot be `bot`; did you mean `boot`?
    "#]],
    );
    check(
        "order: serial",
        "order: seriel",
        expect![[r#"
        x.yaml:11:18: variants.stock.order cannot be `seriel`; did you mean `serial`?
    "#]],
    );
    check(
        "{cpus: 2",
        "{backend: gest, cpus: 2",
        expect![[r#"
        x.yaml:3:20: machine.backend cannot be `gest`; did you mean `guest`?
    "#]],
    );
    check(
        "type: bridge",
        "type: rootport",
        expect![[r#"
        x.yaml:8:11: devices[2].type cannot be `rootport`; did you mean `root-port`?
    "#]],
    );
    check(
        "about:",
        "clock: kvm\nabout:",
        expect![[r#"
        x.yaml:1:8: clock cannot be `kvm`; valid: virtual, wall
    "#]],
    );
    check(
        "metric: device_shutdown",
        "metric: shutdown",
        expect![[r#"
            x.yaml:19:33: expect[0].metric cannot be `shutdown`; did you mean `device_shutdown`?
        "#]],
    );
    check(
        "cpus: 2",
        "type: q53, cpus: 2",
        expect![[r#"
            x.yaml:3:17: machine.type cannot be `q53`; did you mean `q35`?
        "#]],
    );
}

#[test]
fn units() {
    check(
        "512 MiB",
        "512 MB",
        expect![[r#"
        x.yaml:3:28: machine.memory: `512 MB` is no size: unit `MB` is none of B, KiB, MiB, GiB, TiB
    "#]],
    );
    check(
        "512 MiB",
        "512.3 MiB",
        expect![[r#"
        x.yaml:3:28: machine.memory: `512.3 MiB` is no size: it is finer than the smallest unit
    "#]],
    );
    check(
        "2.95 s",
        "2.95",
        expect![[r#"
        x.yaml:16:28: reference.device_shutdown.stock takes a duration such as `1.14 s`, not the number 2.95
    "#]],
    );
    check(
        "2.95 s",
        "2.95 sec",
        expect![[r#"
        x.yaml:16:28: reference.device_shutdown.stock: `2.95 sec` is no duration: unit `sec` is none of ns, us, ms, s, min
    "#]],
    );
    check(
        "2.95 s",
        "61 min",
        expect![[r#"
        x.yaml:16:28: reference.device_shutdown.stock: 61 min is longer than 1 h; is the unit right?
    "#]],
    );
    check(
        "2.95 s",
        "0 s",
        expect![[r#"
        x.yaml:16:28: reference.device_shutdown.stock is zero; leave it out instead
    "#]],
    );
    check(
        "2 %",
        "2 percent",
        expect![[r#"
        x.yaml:19:58: expect[0].within: `2 percent` is no fraction: unit `percent` is none of %
    "#]],
    );
    check(
        "2 %",
        "200 %",
        expect![[r#"
        x.yaml:19:58: expect[0].within: more than 100 % holds of everything
    "#]],
    );
}

#[test]
fn yaml() {
    check_text(
        "",
        expect![[r#"
        x.yaml:1:1: the file is empty
    "#]],
    );
    check_text(
        "# nothing\n",
        expect![[r#"
        x.yaml:1:1: the file is empty
    "#]],
    );
    check_text(
        "just text",
        expect![[r#"
            x.yaml:1:1: the file takes a mapping, not `just text`
        "#]],
    );
    check_text(
        "[a, list]",
        expect![[r#"
            x.yaml:1:1: the file takes a mapping, not a list
        "#]],
    );
    check_text(
        "about: [\n",
        expect![[r#"
        x.yaml:2:1: not valid YAML: while parsing a node, did not find expected node content
    "#]],
    );
    check_text(
        "a: b: c\n",
        expect![[r#"
        x.yaml:1:5: not valid YAML: mapping values are not allowed in this context
    "#]],
    );
    check_text(
        &format!("{BASE}---\n{BASE}"),
        expect![[r#"
        x.yaml:20:1: a second YAML document begins here; a file holds one
    "#]],
    );
    check_text(
        "? [a, b]\n: c\n",
        expect![[r#"
        x.yaml:1:3: a key must be plain text
    "#]],
    );
    check_text(
        ": x\n",
        expect![[r#"
            x.yaml:1:1: a key must not be empty
            x.yaml:1:1: unknown key ``
            x.yaml:1:1: `about` is missing; it takes text
            x.yaml:1:1: `kernel` is missing; it takes a name
            x.yaml:1:1: `machine` is missing; it takes a mapping
            x.yaml:1:1: `variants` is missing; it takes a mapping
            x.yaml:1:1: `measure` is missing; it takes a list
        "#]],
    );
    check(
        "name: mlx4,",
        "name: &n mlx4,",
        expect![[r#"
        x.yaml:5:12: YAML anchors and aliases are not used here; write the value out
    "#]],
    );
    check(
        "name: mlx4,",
        "name: *n,",
        expect![[r#"
        x.yaml:5:12: not valid YAML: while parsing node, found unknown anchor
    "#]],
    );
    check(
        "cpus: 2",
        "cpus: !!int 2",
        expect![[r#"
        x.yaml:3:17: YAML tags are not used here; leave the `!...` out
    "#]],
    );
    check(
        "cpus: 2",
        "<<: {cpus: 2}, cpus: 2",
        expect![[r#"
        x.yaml:3:11: merge keys (`<<`) are not used here
    "#]],
    );
    check_text(
        &"[".repeat(100),
        expect![[r#"
        x.yaml:1:33: nested more than 32 levels deep
    "#]],
    );
    check_text(
        &format!("#{}", "x".repeat(super::super::tree::MAX_TEXT)),
        expect![[r#"
        x.yaml:1:1: the file has 4194305 bytes; the limit is 4194304
    "#]],
    );
    check(
        "about: a test",
        "about: \"a\\u001b[31m\"\nkernle: \"x\\u001by\"\n\"k\\u0007\": 1",
        expect![[r#"
            x.yaml:2:1: unknown key `kernle`; valid: churn, clock, first, links, meanwhile, memory, profiles, repeats, sweep, sysctl, timeout, walk
            x.yaml:3:1: unknown key `k�`; valid: churn, clock, first, links, meanwhile, memory, profiles, repeats, sweep, sysctl, timeout, walk
        "#]],
    );
}

#[test]
fn a_billion_laughs_are_refused_at_the_first() {
    let mut text = "a0: &a0 [lol, lol]\n".to_owned();
    for n in 1..40 {
        text += &format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1);
    }
    check_text(
        &text,
        expect![[r#"
        x.yaml:1:5: YAML anchors and aliases are not used here; write the value out
    "#]],
    );
}

#[test]
fn everything_at_once_in_line_order() {
    let text = BASE
        .replace("cpus: 2", "cpus: 0")
        .replace("profile: ixgbe-x540", "profile: ixgb")
        .replace("a=1", "init=/x")
        .replace("of: ideal", "of: stok")
        .replace("2.95 s", "2.95 sec");
    check_text(
        &text,
        expect![[r#"
            x.yaml:3:17: machine.cpus must be 1 to 64, not 0
            x.yaml:6:28: unknown profile `ixgb` in devices[1].profile; did you mean `ixgbe-x540`?
            x.yaml:12:51: variants.parallel.cmdline[0]: `init=/x` is set by bootrig: PID 1 is the rig's own
            x.yaml:16:28: reference.device_shutdown.stock: `2.95 sec` is no duration: unit `sec` is none of ns, us, ms, s, min
            x.yaml:19:67: expect[0].of takes ideal, a duration or a variant, not `stok`; did you mean `stock`?
        "#]],
    );
    let many: String = (0..50)
        .map(|n| format!("  - {{name: d{n}, profile: no}}\n"))
        .collect();
    let said = said(&with_devices(&many));
    assert_eq!(said.lines().count(), 21);
    assert!(said.ends_with("x.yaml: 30 more errors\n"), "{said}");
}
