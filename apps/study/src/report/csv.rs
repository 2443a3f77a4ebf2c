//! A table as CSV (RFC 4180), with all digits of its numbers.

use csv::{Terminator, WriterBuilder};

use crate::exhibit::{Cell, Table};

/// The table with its headings.
pub(super) fn encode(table: &Table) -> String {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    let rows = table.rows.iter().map(|row| row.iter().map(cell).collect());
    for record in std::iter::once(table.columns.clone()).chain(rows) {
        writer
            .write_record(record)
            .expect("rows have as many cells as columns, and memory is there");
    }
    let bytes = writer.into_inner().expect("it is written to memory");
    String::from_utf8(bytes).expect("cells are strings")
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number(number) | Cell::Change(number) if number.is_finite() => number.to_string(),
        Cell::Number(_) | Cell::Change(_) | Cell::Missing => String::new(),
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
