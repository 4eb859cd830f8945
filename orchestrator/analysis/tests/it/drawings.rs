//! What is drawn in reports.

use cvc_show::Plot;

/// All drawings of a plot: legend and panels.
pub fn all_svg(plot: &Plot) -> String {
    [plot.keys.concat(), plot.panels.concat()].concat()
}
