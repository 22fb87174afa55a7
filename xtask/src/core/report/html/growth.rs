// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the figures of a sweep grow.

use maud::{Markup, html};

use super::table;
use crate::core::report::growth::{Grown, figures};

/// A sweep's section.
pub fn section(sweep: &Grown) -> Markup {
    html! {
        section.scenario id={ "growth-" (sweep.name) } {
            h2 { (sweep.name) ": growth over " (sweep.over) }
            @for (metric, of) in &sweep.metrics {
                h3 { (metric) }
                (table(metric, &figures(&sweep.parts, sweep.over, of)))
            }
        }
    }
}
