// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module per subcommand; no command imports another.
