// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask`: dispatch only.
fn main() {
    bootrig::edge::process::serve_if_asked();
}
