// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where and with what a run was made, and how to make it again.

use maud::{Markup, html};

use super::table;
use crate::core::{grid, report::view::View};

/// The page's last section.
pub fn section(view: &View) -> Markup {
    let made = &view.made;
    let facts = made.environment.iter();
    let facts = facts.map(|(name, what)| vec![name.clone(), what.clone()]);
    let kernels = made.kernels.iter().map(|k| k.to_vec());
    html! {
        section #made {
            h2 { "How it was made" }
            h3 { "To make it again" }
            pre tabindex="0" aria-label="The command that makes this run again" {
                code { (made.command) }
            }
            @if !made.kernels.is_empty() {
                h3 { "Kernels" }
                (table("Kernels", &grid::table(
                    &["kernel", "source", "release", "compiler"], kernels.collect())))
            }
            @if !made.environment.is_empty() {
                h3 { "Environment" }
                (table("Environment", &grid::table(&["what", "is"], facts.collect())))
            }
        }
    }
}
