// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many machines run side by side.

use std::num::NonZeroUsize;

use anyhow::Result;

use crate::{
    core::{
        fault::Fault,
        plan::Trial,
        scenario::{Clock, guests_that_fit},
        units::Bytes,
    },
    edge::qemu::AccelChoice,
};

/// How many machines of `plan` run side by side: `asked` for, else one a CPU. Wall-clock trials
/// run alone: beside another they would measure each other.
///
/// # Errors
/// Usage errors for what cannot be together, and when a machine of `plan` needs more than the
/// host's `available` memory.
pub(super) fn side_by_side(
    asked: Option<u16>,
    accel: AccelChoice,
    plan: &[Trial],
    available: Bytes,
    say: &dyn Fn(&str),
) -> Result<NonZeroUsize> {
    let wall = plan.iter().any(|t| t.clock == Clock::Wall);
    if accel == AccelChoice::Kvm && plan.iter().any(|t| t.clock == Clock::Virtual) {
        let why = "--accel kvm needs wall time (--clock wall): virtual time counts instructions, which KVM cannot";
        return Err(Fault::usage(why).into());
    }
    let jobs = match asked.and_then(|n| NonZeroUsize::new(n.into())) {
        Some(jobs) if wall && jobs.get() > 1 => {
            let why = "--jobs above 1 needs virtual time: wall-clock boots run alone";
            return Err(Fault::usage(why).into());
        }
        Some(jobs) => jobs,
        None if wall => NonZeroUsize::MIN,
        None => std::thread::available_parallelism()?,
    };
    let scenarios = plan.iter().map(|t| &*t.scenario);
    let fit = guests_that_fit(scenarios, available).map_err(Fault::usage)?;
    if fit >= jobs {
        return Ok(jobs);
    }
    say(&format!(
        "note: {fit} machines side by side instead of {jobs}: more do not fit the host's memory"
    ));
    Ok(fit)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::{
        fault::{Exit, exit_of},
        plan::{Overrides, plan},
        scenario::{Known, parse},
    };

    fn of(memory: &str, clock: &str) -> Vec<Trial> {
        let text = format!(
            "about: x\nkernel: \"6.1\"\nclock: {clock}\nmachine: {{cpus: 1{memory}\nvariants:\n  stock: {{order: serial}}\nmeasure: [boot]\n"
        );
        let scenario = parse("s.yaml", &text, &Known::default()).unwrap_or_else(|e| panic!("{e}"));
        plan(&[Arc::new(scenario)], Overrides::default())
    }

    #[test]
    fn no_more_than_fit() {
        let large = of("}\nmemory: {blocks: 102401, how: real}", "virtual");
        let gib = |n: u64| Bytes(n << 30);
        let jobs = |asked, plan: &[Trial], available| {
            side_by_side(asked, AccelChoice::Auto, plan, available, &|_| {})
        };
        assert_eq!(jobs(Some(4), &large, gib(23)).unwrap().get(), 3);
        assert_eq!(jobs(Some(2), &large, gib(23)).unwrap().get(), 2);
        let error = jobs(None, &large, gib(4)).unwrap_err();
        assert_eq!(exit_of(&error), Exit::Usage);
        let error = error.to_string();
        assert!(
            error.contains("102401 memory blocks need 7312 MiB") && error.contains("4096 MiB"),
            "{error}"
        );
        let small = of(", memory: 256 MiB}", "virtual");
        assert_eq!(jobs(Some(7), &small, gib(1)).unwrap().get(), 7);
        let wall = of(", memory: 256 MiB}", "wall");
        assert_eq!(jobs(None, &wall, gib(1)).unwrap().get(), 1);
        assert!(jobs(Some(2), &wall, gib(1)).is_err());
    }
}
