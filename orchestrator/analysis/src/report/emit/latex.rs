//! The tables as LaTeX: a document of its own with `booktabs` and `longtable`, from which tables can be copied into a paper. Plots are left to
//! the page.

use crate::report::{
    format::{Style, numeric, plain, unit_beside},
    model::{Block, Report, Table},
};

/// Page and packages; A3, because tables with a dozen columns are wider than any other page.
const HEAD: &str = "\
\\documentclass{article}
\\usepackage[T1]{fontenc}
\\usepackage[utf8]{inputenc}
\\usepackage{textcomp}
\\usepackage{amssymb}
\\usepackage[a3paper,landscape,margin=12mm]{geometry}
\\usepackage{booktabs}
\\usepackage{longtable}
\\usepackage{array}
\\setlength{\\tabcolsep}{3pt}
\\setlength{\\LTleft}{0pt}
\\setlength{\\parindent}{0pt}
\\setcounter{secnumdepth}{0}
";

/// Characters per line of text on the page, in the small type of the tables.
const LINE: usize = 230;

pub(super) fn text(report: &Report) -> String {
    let mut out = format!(
        "{HEAD}\\begin{{document}}\n\\section*{{{}}}\n",
        escape(&report.title)
    );
    out.push_str(&format!(
        "{}: {}\n",
        escape(report.kind.words()),
        escape(&report.campaign)
    ));
    for section in report
        .sections
        .iter()
        .filter(|s| !s.blocks.iter().all(|b| matches!(b, Block::Plot(_))))
    {
        out.push_str(&format!("\n\\section{{{}}}\n", escape(&section.title)));
        for block in &section.blocks {
            match block {
                Block::Text { text } => out.push_str(&format!("\n{}\n", escape(text))),
                Block::Warning { text } => {
                    out.push_str(&format!("\n\\textbf{{Note:}} {}\n", escape(text)))
                }
                Block::Pairs { pairs } => {
                    out.push('\n');
                    for (name, value) in pairs {
                        out.push_str(&format!("{}: {}\\\\\n", escape(name), escape(value)));
                    }
                }
                Block::Command { text } => {
                    out.push('\n');
                    for line in text.lines() {
                        out.push_str(&format!("\\texttt{{{}}}\\\\\n", escape(line)));
                    }
                }
                Block::Table(table) if !table.folded => write_table(&mut out, table),
                Block::Table(_) | Block::Plot(_) => {}
            }
        }
    }
    out.push_str("\n\\end{document}\n");
    out
}

fn write_table(out: &mut String, table: &Table) {
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|i| !table.columns[*i].data_only)
        .collect();
    let styles: Vec<Style> = shown.iter().map(|i| Style::of(table, *i)).collect();
    let cells: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| {
            shown
                .iter()
                .zip(&styles)
                .map(|(i, style)| plain(&row[*i], style))
                .collect()
        })
        .collect();
    let heads: Vec<String> = shown
        .iter()
        .zip(&styles)
        .map(|(i, style)| {
            let unit = unit_beside(&table.columns[*i].heading, style)
                .map(|u| format!(", {u}"))
                .unwrap_or_default();
            format!("{}{unit}", table.columns[*i].heading)
        })
        .collect();
    let widths = widths(&heads, &cells);
    let columns: Vec<String> = shown
        .iter()
        .zip(&widths)
        .map(|(i, width)| {
            let side = if numeric(table, *i) {
                "raggedleft"
            } else {
                "raggedright"
            };
            format!(">{{\\{side}\\arraybackslash}}p{{{width:.4}\\linewidth}}")
        })
        .collect();
    out.push_str(&format!(
        "\n\\subsection{{{}}}\n{}\n\n{{\\scriptsize\n",
        escape(&table.title),
        escape(&table.caption)
    ));
    out.push_str(&format!(
        "\\begin{{longtable}}{{{}}}\n\\toprule\n",
        columns.concat()
    ));
    line(out, &heads);
    out.push_str("\\midrule\n\\endhead\n\\bottomrule\n\\endfoot\n");
    for row in &cells {
        line(out, row);
    }
    out.push_str("\\end{longtable}\n");
    for note in &table.notes {
        out.push_str(&format!(
            "{}: {}\n\n",
            escape(&note.mark),
            escape(&note.text)
        ));
    }
    out.push_str("}\n");
}

/// Returns the widths of the columns as fractions of the line: each as wide as its longest cell if all fit, else scaled down in proportion.
fn widths(heads: &[String], cells: &[Vec<String>]) -> Vec<f64> {
    let longest = |i: usize| {
        cells
            .iter()
            .map(|row| row[i].chars().count())
            .max()
            .unwrap_or(0)
    };
    // a heading may break between words, and so may a long text
    let wanted: Vec<f64> = (0..heads.len())
        .map(|i| {
            let word = heads[i]
                .split(' ')
                .map(|w| w.chars().count())
                .max()
                .unwrap_or(0);
            (longest(i).clamp(3, 60).max(word) + 2) as f64 / LINE as f64
        })
        .collect();
    // the gaps between the columns take the rest
    let space = 0.97 - 0.006 * heads.len() as f64;
    let sum: f64 = wanted.iter().sum();
    wanted
        .iter()
        .map(|w| if sum > space { w / sum * space } else { *w })
        .collect()
}

fn line(out: &mut String, cells: &[String]) {
    // LaTeX would take a bracket or a star after `\\` for its argument
    let guarded = |c: &String| {
        if c.starts_with(['[', '*']) {
            format!("{{}}{}", escape(c))
        } else {
            escape(c)
        }
    };
    out.push_str(&format!(
        "{} \\\\\n",
        cells.iter().map(guarded).collect::<Vec<_>>().join(" & ")
    ));
}

/// Escapes text so that LaTeX reads it literally, in characters that its usual fonts have.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\textbackslash{}"),
            '{' | '}' | '$' | '&' | '#' | '%' | '_' => {
                out.push('\\');
                out.push(c);
            }
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            '|' => out.push_str("\\textbar{}"),
            '"' => out.push_str("\\textquotedbl{}"),
            '\n' | '\r' | '\t' => out.push(' '),
            '\u{200b}' => {}
            c if c.is_ascii_control() => {}
            c if c.is_ascii() => out.push(c),
            // Latin letters
            '\u{00c0}'..='\u{017f}' => out.push(c),
            c => match MATHS.iter().find(|(sign, _)| *sign == c) {
                Some((_, command)) => out.push_str(command),
                None => out.push_str(&format!("[U+{:04X}]", u32::from(c))),
            },
        }
    }
    out
}

/// The signs that reports use, with their LaTeX commands.
const MATHS: [(char, &str); 30] = [
    ('\u{00a0}', "~"),
    ('·', "\\textperiodcentered{}"),
    ('×', "\\texttimes{}"),
    ('±', "\\textpm{}"),
    ('²', "\\texttwosuperior{}"),
    ('³', "\\textthreesuperior{}"),
    ('µ', "\\textmu{}"),
    ('°', "\\textdegree{}"),
    ('–', "--"),
    ('—', "---"),
    ('…', "\\ldots{}"),
    ('’', "'"),
    ('“', "``"),
    ('”', "''"),
    ('−', "$-$"),
    ('≤', "$\\le$"),
    ('≥', "$\\ge$"),
    ('≈', "$\\approx$"),
    ('≠', "$\\neq$"),
    ('√', "$\\surd$"),
    ('Σ', "$\\Sigma$"),
    ('α', "$\\alpha$"),
    ('δ', "$\\delta$"),
    ('σ', "$\\sigma$"),
    ('⌊', "$\\lfloor$"),
    ('⌋', "$\\rfloor$"),
    ('→', "$\\rightarrow$"),
    ('✓', "\\checkmark{}"),
    ('✗', "$\\times$"),
    ('△', "$\\triangle$"),
];

#[cfg(test)]
mod tests {
    use super::{escape, widths};

    #[test]
    fn no_character_is_a_command() {
        assert_eq!(
            escape("100 % of a_b & {c} \\ ^~#$"),
            "100 \\% of a\\_b \\& \\{c\\} \\textbackslash{} \\textasciicircum{}\\textasciitilde{}\\#\\$"
        );
        assert_eq!(escape("León ✓ ≤ 漢"), "León \\checkmark{} $\\le$ [U+6F22]");
    }

    #[test]
    fn columns_fit_on_the_page() {
        let heads: Vec<String> = (0..20).map(|i| format!("heading {i}")).collect();
        let cells = vec![vec!["x".repeat(80); 20]];
        assert!(widths(&heads, &cells).iter().sum::<f64>() < 0.9);
        assert!(
            widths(&heads[..2], &[vec!["1".into(), "2".into()]])
                .iter()
                .sum::<f64>()
                < 0.2
        );
    }
}
