// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command line of `cargo xtask`.
