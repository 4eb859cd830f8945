//! Access to the drawings in reports.

use cvc_show::Plot;

/// Returns all drawings of a plot as one text: legend and panels.
pub fn all_svg(plot: &Plot) -> String {
    [plot.keys.concat(), plot.panels.concat()].concat()
}
