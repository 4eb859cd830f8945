//! Writes the tables as LaTeX: a file for each table, to include with `\input`, and a document that includes all of them. Plots are left out.

use crate::{
    document::{Block, Cell, Document, Mark, Table},
    format::{Style, numeric, plain, unit_beside},
    slug,
};

/// Beginning of the document: page format and packages.
const HEAD: &str = "\
\\documentclass{article}
\\usepackage[T1]{fontenc}
\\usepackage[utf8]{inputenc}
\\usepackage[a4paper,margin=20mm]{geometry}
% what the tables need
\\usepackage{booktabs,longtable,array,textcomp,amssymb}
% what tables need that are wider than a portrait page
\\usepackage{pdflscape}
\\setlength{\\parindent}{0pt}
\\setcounter{secnumdepth}{0}
";

/// Directory of the tables' files, next to the document.
const TABLES: &str = "tables";

/// Number of characters of a table's small type that fit in a line: here on a portrait page, in the next constant on a landscape page.
const PORTRAIT: f64 = 118.0;
const LANDSCAPE: f64 = 180.0;

/// Number of characters of the smallest type that fit in a line of a landscape page.
const LANDSCAPE_TINY: f64 = 236.0;

/// Width of the gap between two columns, characters.
const GAP: f64 = 1.7;

/// Layout of a table: page orientation, type size, and the widths of its columns as fractions of the line.
#[derive(Debug, PartialEq)]
struct Setting {
    landscape: bool,
    tiny: bool,
    widths: Vec<f64>,
}

/// Returns names and contents of the files: the document, and one file for each table.
pub(super) fn files(report: &Document) -> Vec<(String, String)> {
    let mut out = format!(
        "{HEAD}\\begin{{document}}\n\\section*{{{}}}\n",
        escape(&report.title)
    );
    out.push_str(&format!(
        "{}: {}\n",
        escape(report.kind.label()),
        escape(&report.campaign)
    ));
    let mut files = Vec::new();
    for section in report
        .sections
        .iter()
        .filter(|s| !s.blocks.iter().all(|b| matches!(b, Block::Plot(_))))
    {
        out.push_str(&format!("\n\\section{{{}}}\n", escape(&section.title)));
        for block in &section.blocks {
            match block {
                Block::Text { text } | Block::Item { text, .. } | Block::Line { text } => {
                    out.push_str(&format!("\n{}\n", escape(text)))
                }
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
                Block::Table(table) if !table.folded => {
                    let (landscape, text) = table_file(report, table);
                    let name = format!("{TABLES}/{}", table.id);
                    let input = format!("\\input{{{name}}}\n");
                    out.push_str(&if landscape {
                        format!("\n\\begin{{landscape}}\n{input}\\end{{landscape}}\n")
                    } else {
                        format!("\n{input}")
                    });
                    files.push((format!("{name}.tex"), text));
                }
                Block::Table(_) | Block::Plot(_) => {}
            }
        }
    }
    out.push_str("\n\\end{document}\n");
    files.insert(0, ("report.tex".to_owned(), out));
    files
}

/// Returns the content of a table's file, and whether it needs a landscape page.
fn table_file(report: &Document, table: &Table) -> (bool, String) {
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
    let setting = setting(&heads, &cells);
    let columns: Vec<String> = shown
        .iter()
        .zip(&setting.widths)
        .map(|(i, width)| {
            let side = if numeric(table, *i) {
                "raggedleft"
            } else {
                "raggedright"
            };
            format!(">{{\\{side}\\arraybackslash}}p{{{width:.4}\\linewidth}}")
        })
        .collect();
    let name = slug(&format!("{}-{}", report.campaign, table.id));
    let mut out = String::from("% needs \\usepackage{booktabs,longtable,array,textcomp,amssymb}");
    if setting.landscape {
        out.push_str(
            "\n% wider than a portrait page: \\usepackage{pdflscape}, and \\input it between \\begin{landscape} and \\end{landscape}",
        );
    }
    let size = if setting.tiny { "tiny" } else { "scriptsize" };
    out.push_str(&format!(
        "\n\\begingroup\n\\{size}\n\\setlength{{\\tabcolsep}}{{3pt}}\n\\setlength{{\\LTcapwidth}}{{\\linewidth}}\n\
         \\begin{{longtable}}{{{}}}\n",
        columns.concat()
    ));
    let title = escape(&table.title);
    out.push_str(&format!(
        "\\caption[{{{title}}}]{{{title}. {}}}\\label{{tab:{name}}}\\\\\n\\toprule\n",
        escape(&table.caption)
    ));
    line(&mut out, &heads);
    out.push_str(&format!(
        "\\midrule\n\\endfirsthead\n\\multicolumn{{{}}}{{l}}{{\\emph{{continued}}}}\\\\\n\\toprule\n",
        heads.len()
    ));
    line(&mut out, &heads);
    out.push_str("\\midrule\n\\endhead\n\\bottomrule\n\\endfoot\n");
    for row in &cells {
        line(&mut out, row);
    }
    out.push_str("\\end{longtable}\n");
    if has_marks(table) {
        let marks: Vec<String> = Mark::COMPARED
            .iter()
            .map(|m| format!("{} {}", escape(m.symbol()), escape(m.meaning())))
            .collect();
        out.push_str(&format!("\\noindent {}.\\par\n", marks.join("; ")));
    }
    for note in &table.notes {
        out.push_str(&format!(
            "\\noindent {}: {}\\par\n",
            escape(&note.mark),
            escape(&note.text)
        ));
    }
    out.push_str("\\endgroup\n");
    (setting.landscape, out)
}

/// Returns whether the table has marks of comparisons, which need a legend.
fn has_marks(table: &Table) -> bool {
    table
        .rows
        .iter()
        .flatten()
        .any(|c| matches!(c, Cell::Against { against } if against.mark != Mark::Label))
}

/// Returns the number of characters of the longest word in a text.
fn longest_word(text: &str) -> usize {
    text.split(' ')
        .map(|w| w.chars().count())
        .max()
        .unwrap_or(0)
}

/// Chooses the layout of a table. It is portrait if the columns fit with little squeezing.
fn setting(heads: &[String], cells: &[Vec<String>]) -> Setting {
    let column = |i: usize, length: &dyn Fn(&str) -> usize| {
        cells.iter().map(|row| length(&row[i])).max().unwrap_or(0)
    };
    // headings and long texts break between words; a longer word breaks anywhere
    let natural: Vec<f64> = (0..heads.len())
        .map(|i| {
            let longest = column(i, &|c| c.chars().count()).clamp(3, 60);
            longest.max(longest_word(&heads[i])) as f64
        })
        .collect();
    let least: Vec<f64> = (0..heads.len())
        .map(|i| {
            let word = column(i, &longest_word).max(longest_word(&heads[i]));
            word.clamp(3, 16) as f64
        })
        .collect();
    let gaps = GAP * heads.len() as f64;
    let needs: f64 = least
        .iter()
        .zip(&natural)
        .map(|(l, n)| l + 0.3 * (n - l).max(0.0))
        .sum();
    let pages = [
        (false, false, PORTRAIT),
        (true, false, LANDSCAPE),
        (true, true, LANDSCAPE_TINY),
    ];
    let (landscape, tiny, characters) = pages
        .into_iter()
        .find(|(.., characters)| needs + gaps <= *characters)
        .unwrap_or((true, true, LANDSCAPE_TINY));
    let space = characters - gaps;
    let (of_natural, of_least) = (natural.iter().sum::<f64>(), least.iter().sum::<f64>());
    let width = |(l, n): (&f64, &f64)| {
        let characters_wide = if of_natural <= space {
            *n
        } else if of_least < space && of_natural > of_least {
            l + (n - l) * (space - of_least) / (of_natural - of_least)
        } else {
            l * space / of_least
        };
        characters_wide / characters
    };
    Setting {
        landscape,
        tiny,
        widths: least.iter().zip(&natural).map(width).collect(),
    }
}

fn line(out: &mut String, cells: &[String]) {
    // after `\\`, LaTeX would parse a bracket or a star as an argument
    let guarded = |c: &String| {
        let text = breakable(c);
        if c.starts_with(['[', '*']) {
            format!("{{}}{text}")
        } else {
            text
        }
    };
    out.push_str(&format!(
        "{} \\\\\n",
        cells.iter().map(guarded).collect::<Vec<_>>().join(" & ")
    ));
}

/// Escapes the text of a cell, and allows long words to break after a slash, a hyphen, an underscore or a dot.
fn breakable(text: &str) -> String {
    let word = |word: &str| {
        if word.chars().count() <= 16 {
            return escape(word);
        }
        let parts = word.split_inclusive(['/', '-', '_', '.']);
        parts.map(escape).collect::<Vec<_>>().join("\\allowbreak{}")
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Escapes text so that LaTeX prints it literally with its usual fonts.
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
            // accented Latin letters need no escape
            '\u{00c0}'..='\u{017f}' => out.push(c),
            c => match MATHS.iter().find(|(sign, _)| *sign == c) {
                Some((_, command)) => out.push_str(command),
                None => out.push_str(&format!("[U+{:04X}]", u32::from(c))),
            },
        }
    }
    out
}

/// Symbols in reports, with the LaTeX commands for them.
const MATHS: [(char, &str); 33] = [
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
    ('▲', "$\\blacktriangle$"),
    ('◇', "$\\diamond$"),
    ('●', "$\\bullet$"),
];

#[cfg(test)]
mod tests {
    use super::{breakable, escape, setting};

    #[test]
    fn no_character_is_a_command() {
        assert_eq!(
            escape("100 % of a_b & {c} \\ ^~#$"),
            "100 \\% of a\\_b \\& \\{c\\} \\textbackslash{} \\textasciicircum{}\\textasciitilde{}\\#\\$"
        );
        assert_eq!(escape("León ✓ ≤ 漢"), "León \\checkmark{} $\\le$ [U+6F22]");
    }

    #[test]
    fn signs_of_papers_are_known() {
        let signs = crate::document::Mark::COMPARED.map(|m| escape(m.symbol()));
        for text in signs.into_iter().chain([escape("◇ ● ▲ △")]) {
            assert!(!text.contains("[U+"), "{text}");
        }
    }

    #[test]
    fn long_words_break_and_short_ones_do_not() {
        assert_eq!(
            breakable("a_b runs/a/very-long-path"),
            "a\\_b runs/\\allowbreak{}a/\\allowbreak{}very-\\allowbreak{}long-\\allowbreak{}path"
        );
    }

    #[test]
    fn a_small_table_stands_on_a_portrait_page_and_a_wide_one_on_a_landscape_page() {
        let small = setting(
            &["a".into(), "b".into()],
            &[vec!["1".into(), "2".into()], vec!["10".into(), "20".into()]],
        );
        assert!(!small.landscape && small.widths.iter().sum::<f64>() < 0.2);
        let of = |columns: usize, cell: &str| {
            let heads: Vec<String> = (0..columns).map(|i| format!("heading {i}")).collect();
            setting(&heads, &[vec![cell.to_owned(); columns]])
        };
        for (columns, cell) in [
            (12, "12.34 (+1.23 %)"),
            (20, "12.34"),
            (20, &"x".repeat(80)),
            (40, "1234.5"),
        ] {
            let set = of(columns, cell);
            assert!(set.widths.iter().sum::<f64>() <= 1.0, "{set:?}");
        }
        assert!(!of(11, "12.34").landscape);
        let wide = of(14, "12.34 (+1.23 %)");
        assert!(wide.landscape && !wide.tiny, "{wide:?}");
        assert!(of(20, &"x".repeat(80)).tiny);
    }
}
