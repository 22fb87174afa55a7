// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table of texts, whatever it is written as.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

/// A table: the first column names things, the others are about them. Shown, it is
/// Markdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The columns' names.
    pub header: Vec<String>,
    /// As long as the header, each.
    pub rows: Vec<Vec<String>>,
}

/// A [`Grid`] of these.
pub fn table(header: &[&str], rows: Vec<Vec<String>>) -> Grid {
    Grid {
        header: header.iter().map(|h| (*h).to_owned()).collect(),
        rows,
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table
            .load_style(ASCII_MARKDOWN)
            .set_header(self.header.iter());
        for row in &self.rows {
            table.add_row(row);
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_cell_alignment(if index == 0 {
                CellAlignment::Left
            } else {
                CellAlignment::Right
            });
        }
        table.fmt(f)
    }
}
