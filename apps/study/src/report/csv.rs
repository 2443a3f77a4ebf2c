//! A table as CSV (RFC 4180), with all digits of its numbers.

use crate::exhibit::{Cell, Table};

/// The table with its headings.
pub(super) fn encode(table: &Table) -> String {
    let mut text = String::new();
    line(&mut text, table.columns.iter().map(|column| quoted(column)));
    for row in &table.rows {
        line(&mut text, row.iter().map(cell));
    }
    text
}

fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    text.push_str(&cells.join(","));
    text.push_str("\r\n");
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => quoted(text),
        Cell::Number(number) | Cell::Change(number) if number.is_finite() => number.to_string(),
        Cell::Number(_) | Cell::Change(_) | Cell::Missing => String::new(),
    }
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::encode;
    use crate::exhibit::{Cell, Table};

    #[test]
    fn cells_with_commas_and_quotes_are_quoted_and_numbers_are_whole() {
        let table = Table {
            columns: vec!["series".to_owned(), "rate, IOPS".to_owned()],
            rows: vec![
                vec![Cell::Text("a \"b\"".to_owned()), Cell::Number(1_234.567_89)],
                vec![Cell::Number(f64::NAN), Cell::Missing],
                vec![Cell::Change(150.5), Cell::Change(f64::NAN)],
            ],
        };
        let text = "series,\"rate, IOPS\"\r\n\"a \"\"b\"\"\",1234.56789\r\n,\r\n150.5,\r\n";
        assert_eq!(encode(&table), text);
    }
}
