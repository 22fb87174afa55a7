// SPDX-License-Identifier: MIT OR Apache-2.0
//! What plots of lines have in common.

use maud::{Markup, html};
use plotters::{
    coord::Shift,
    prelude::{DrawingArea, DrawingAreaErrorKind, DrawingBackend, RGBColor, SVGBackend},
};

/// Its unit is a pixel where the page is narrow.
pub const SIZE: (u32, u32) = (340, 250);

/// Lines' colours. The page's style puts its own, light or dark, in their place by name, so
/// these must be those of style.css.
pub const LINES: [RGBColor; 6] = [
    RGBColor(1, 0, 1),
    RGBColor(2, 0, 2),
    RGBColor(3, 0, 3),
    RGBColor(4, 0, 4),
    RGBColor(5, 0, 5),
    RGBColor(6, 0, 6),
];

/// What is drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// What became of drawing; a string takes all that is drawn on it.
pub type Drawn<'a> =
    Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// What a legend shows of the `at`-th line.
pub fn swatch(at: usize) -> Markup {
    let class = format!("swatch line-{}", at % LINES.len());
    html! { svg class=(class) width="14" height="10" { line x1="0" x2="14" y1="5" y2="5" {} } }
}
