// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said of variants that probe otherwise, and of firmware.

use expect_test::expect;

use super::*;
use crate::core::event::Callback;

fn variant(words: &str, expect: Expect) {
    check(
        "stock: {order: serial}",
        &format!("stock: {{order: serial, {words}}}"),
        expect,
    );
}

fn firmware(size: &str, rest: &str) -> String {
    format!(
        "{{id: \"15b3:1003\", about: x, source: x, firmware: {{flash: 1 MiB, size: {size}, {rest}}}}}"
    )
}

const WAITS: &str =
    "sector: 64 KiB, erase: {poll: 1 s, every: 500 ms}, page: 256 B, program: {sleep: 1 ms}";

#[test]
fn strategies_and_tick_rates_are_those_that_there_are() {
    variant("probe: kthread", expect!["no error"]);
    variant(
        "probe: ktread",
        expect![[r#"
            x.yaml:11:33: variants.stock.probe cannot be `ktread`; did you mean `kthread`?
        "#]],
    );
    variant("hz: 1000", expect!["no error"]);
    variant(
        "hz: 500",
        expect![[r#"
            x.yaml:11:30: variants.stock.hz: no kernel offers 500 Hz; x86 has 100, 250, 300 and 1000
        "#]],
    );
}

#[test]
fn options_are_lines_of_a_configuration() {
    variant(
        "options: [CONFIG_SLOB=y, CONFIG_SLUB=n]",
        expect!["no error"],
    );
    variant(
        "options: [SLOB=y, \"CONFIG_A=\", \"CONFIG_A=a b\", CONFIG_B=y, CONFIG_B=n, \"CONFIG_C=\\e\", CONFIG_=y]",
        expect![[r#"
            x.yaml:11:36: variants.stock.options[0]: `SLOB=y` is no option: write CONFIG_X=y, CONFIG_X=n or CONFIG_X=VALUE
            x.yaml:11:44: variants.stock.options[1]: `CONFIG_A=` is no option: write CONFIG_X=y, CONFIG_X=n or CONFIG_X=VALUE
            x.yaml:11:57: variants.stock.options[2]: `CONFIG_A=a b` is no option: write CONFIG_X=y, CONFIG_X=n or CONFIG_X=VALUE
            x.yaml:11:85: variants.stock.options[4]: CONFIG_B is there already
            x.yaml:11:97: variants.stock.options[5]: `CONFIG_C=�` is no option: write CONFIG_X=y, CONFIG_X=n or CONFIG_X=VALUE
            x.yaml:11:112: variants.stock.options[6]: `CONFIG_=y` is no option: write CONFIG_X=y, CONFIG_X=n or CONFIG_X=VALUE
        "#]],
    );
    variant(
        "options: [CONFIG_A=y, CONFIG_B=y, CONFIG_C=y, CONFIG_D=y, CONFIG_E=y, CONFIG_F=y, CONFIG_G=y, CONFIG_H=y, CONFIG_I=y]",
        expect![[r#"
            x.yaml:11:35: variants.stock.options: more than 8; make a fragment of images/kernels/fragments of them
        "#]],
    );
}

#[test]
fn a_built_in_driver_comes_before_whatever_could_be_done_to_it() {
    variant("probe: built-in", expect!["no error"]);
    variant(
        "probe: built-in, unload: 1 s, kill_loader: 1 s, faults: {mlx4: never-returns, ixgbe: error}",
        expect![[r#"
            x.yaml:11:51: variants.stock.unload: a built-in driver is not loaded, so that there is nothing to kill or unload
            x.yaml:11:69: variants.stock.kill_loader: a built-in driver is not loaded, so that there is nothing to kill or unload
            x.yaml:11:83: variants.stock.faults.mlx4: a built-in driver probes before PID 1 is started, which would never be; take another strategy
        "#]],
    );
    check(
        "machine: {",
        "machine: {backend: guest, ",
        expect!["no error"],
    );
    let built_in = BASE.replace("{order: serial}", "{order: serial, probe: built-in}");
    check_text(
        &built_in.replace("machine: {", "machine: {backend: guest, "),
        expect![[r#"
            x.yaml:11:33: variants.stock.probe: a built-in driver looks for devices before the guest can make them; leave out machine.backend, or take another strategy
        "#]],
    );
    let measured = built_in.replace("measure: [", "measure: [load, ");
    check_text(
        &format!("{measured}  - {{variant: stock, metric: load, at_most: 5 %, of: 1 s}}\n"),
        expect![[r#"
            x.yaml:20:5: expect[1]: `stock` has its driver in the kernel, which nobody loads; take probe, bound or ready
        "#]],
    );
}

#[test]
fn without_records_nothing_is_known_of_devices() {
    variant("record: false", expect!["no error"]);
    variant(
        "record: false, max_tasks: 3, faults: {ixgbe: error}",
        expect![[r#"
            x.yaml:11:52: variants.stock.max_tasks: with `record: false` nobody sees what becomes of devices; leave one of them out
            x.yaml:11:63: variants.stock.faults: with `record: false` nobody sees what becomes of devices; leave one of them out
        "#]],
    );
    check(
        "order: parallel}",
        "order: parallel, record: false}",
        expect![[r#"
            x.yaml:19:5: expect[0]: `parallel` has no records, from which alone that is known
        "#]],
    );
    assert_eq!(
        good(&BASE.replace("{order: serial}", "{order: serial, record: true}")).hash,
        good(BASE).hash
    );
}

#[test]
fn faults_are_of_devices_that_can_have_them() {
    variant("faults: {ixgbe: error, nic: defer}", expect!["no error"]);
    variant(
        "faults: {ixgbe.2: error}",
        expect![[r#"
            x.yaml:11:35: unknown device `ixgbe.2` in variants.stock.faults.ixgbe.2; did you mean `ixgbe.0`?
        "#]],
    );
    variant(
        "faults: {sw: error}",
        expect![[r#"
            x.yaml:11:35: variants.stock.faults.sw: `sw` has no profile and is not probed
        "#]],
    );
    variant(
        "faults: {mlx4: no-firmware}",
        expect![[r#"
            x.yaml:11:35: variants.stock.faults.mlx4: the profile of `mlx4` has no firmware
        "#]],
    );
    variant(
        "faults: {ixgbe: error, ixgbe.1: defer}",
        expect![[r#"
            x.yaml:11:49: variants.stock.faults.ixgbe.1: `ixgbe.1` has a fault already
        "#]],
    );
}

#[test]
fn firmware_fits_its_flash() {
    check_profile(&firmware("512 KiB", WAITS), expect!["no error"]);
    check_profile(
        &firmware("0 B", WAITS),
        expect![[r#"
            x.yaml:21:76: profiles.p.firmware.size is zero; a device without firmware has no `firmware`
        "#]],
    );
    check_profile(
        &firmware("2 MiB", WAITS),
        expect![[r#"
            x.yaml:21:76: profiles.p.firmware.size: 2 MiB do not fit a flash of 1 MiB
        "#]],
    );
    check_profile(
        &firmware("8 B", WAITS),
        expect![[r#"
            x.yaml:21:76: profiles.p.firmware.size: a file has 16 B at least, its head
        "#]],
    );
    check_profile(
        &firmware("512 KiB", &WAITS.replace("64 KiB", "2 MiB")),
        expect![[r#"
            x.yaml:21:93: profiles.p.firmware.sector: 2 MiB are more than the flash of 1 MiB
        "#]],
    );
    check_profile(
        &firmware("512 KiB", &WAITS.replace("256 B", "128 KiB")),
        expect![[r#"
            x.yaml:21:142: profiles.p.firmware.page: 128 KiB are more than a sector of 64 KiB
        "#]],
    );
    check_profile(
        &firmware("512 KiB", &WAITS.replace("sleep: 1 ms", "sleep: 2 s")),
        expect![[r#"
            x.yaml:21:158: profiles.p.firmware.program: writing it takes 4104.0 s in all; the limit is 1 h
        "#]],
    );
    check_profile(
        &firmware("512 KiB", &WAITS.replace("{sleep: 1 ms}", "{nap: 1 ms}")),
        expect![[r#"
            x.yaml:21:159: unknown key `profiles.p.firmware.program.nap`; valid: busy, compute, every, poll, sleep, thread, wait
        "#]],
    );
}

#[test]
fn names_begin_with_letters() {
    check_devices(
        "  - {name: a, profile: mlx4, names: eth}",
        expect!["no error"],
    );
    check_devices(
        "  - {name: a, profile: mlx4, names: eth0}",
        expect![[r#"
        x.yaml:5:37: devices[0].names takes 1 to 15 small letters, such as `eth`, not `eth0`
    "#]],
    );
    check_devices(
        "  - {name: a, type: bridge, names: eth}",
        expect![[r#"
        x.yaml:5:36: devices[0].names: `a` has no profile, so that no driver of ours gives it a name
    "#]],
    );
}

#[test]
fn firmware_takes_its_sectors_and_pages() {
    let own = format!(
        "{BASE}profiles:\n  p: {}\n",
        firmware("96 KiB", WAITS).replace("firmware:", "probe: [{wait: 1 s}], firmware:")
    );
    let text = own.replace("{name: mlx4, profile: mlx4}", "{name: mlx4, profile: p}");
    let scenario = good(&text);
    let profile = &scenario.profiles["p"];
    let pages = 96 * 1024 / 256;
    // Two sectors, the second of them half.
    assert_eq!(
        profile.nominal(Callback::Probe),
        Nanos(2_000_000_000 + pages * 1_000_000 + 1_000_000_000)
    );
    assert_eq!(profile.nominal(Callback::Shutdown), Nanos(0));
}

/// A scenario that says nothing of probing has the hash that it always had.
#[test]
fn what_is_not_said_changes_no_hash() {
    let said = BASE.replace("{order: serial}", "{order: serial, probe: sync}");
    assert_eq!(good(&said).hash, good(BASE).hash);
    let other = BASE.replace("{order: serial}", "{order: serial, probe: kthread}");
    assert_ne!(good(&other).hash, good(BASE).hash);
}
