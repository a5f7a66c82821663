//! The columns of `samples` that controllers declare, after those that every record has.

use std::iter::repeat_n;

use arrow_schema::Field as ArrowField;
use paceline_units::{Field, Quantity, Visitor};

#[cfg(feature = "folder")]
use crate::column::SoFar;
use crate::column::{Coding, Column, Complete, Kind, NONE, field};
use crate::info::FlowInfo;
use crate::packed::Packed;

/// A column of a field. Controllers that use the same name for the same quantity share it; two
/// quantities with one name are two columns.
struct FieldColumn {
    of: Field,
    name: String,
    cells: Packed,
}

/// The name of a field's column, unless it is taken: it ends in the unit.
pub fn column_name(field: &Field) -> String {
    match field.quantity.suffix() {
        suffix if field.name.ends_with(suffix) => field.name.to_owned(),
        suffix => format!("{}{suffix}", field.name),
    }
}

/// The type of a field's column.
fn kind_of(field: &Field) -> Kind {
    match field.quantity {
        Quantity::Gain | Quantity::Number => Kind::Real,
        Quantity::Flag => Kind::Flag,
        _ => Kind::Int,
    }
}

/// The meaning of its values' bits.
fn coding_of(field: &Field) -> Coding {
    match field.quantity {
        Quantity::Gain => Coding::Ratio,
        _ => Coding::of(kind_of(field)),
    }
}

/// The bits of a number, if it is one.
fn finite(bits: u64) -> u64 {
    match f64::from_bits(bits).is_finite() {
        true => bits,
        false => NONE,
    }
}

impl FieldColumn {
    /// A column in addition to the existing ones. A name that is taken is prefixed with `cc_`
    /// (`cc_min_rtt_ns` is the controller's, `min_rtt_ns` the transport's).
    fn new(of: Field, fixed: &[Column], others: &[Self], period: usize) -> Self {
        let mut name = column_name(&of);
        let taken = |name: &str| {
            fixed.iter().any(|column| column.name == name)
                || others.iter().any(|column| column.name == name)
        };
        while taken(&name) {
            name.insert_str(0, "cc_");
        }
        Self {
            of,
            name,
            cells: Packed::new(period),
        }
    }

    /// The cells of further rows, by the bits of their values.
    fn extend(&mut self, cells: impl ExactSizeIterator<Item = u64>) {
        match self.of.quantity {
            Quantity::Number => self.cells.extend(cells.map(finite)),
            _ => self.cells.extend(cells),
        }
    }

    fn finish(self) -> (ArrowField, Complete) {
        let column = Complete {
            coding: coding_of(&self.of),
            cells: self.cells,
            names: Vec::new(),
        };
        (field(&self.name, kind_of(&self.of), true), column)
    }
}

/// The fields of the controllers of some flows that are of one kind.
#[derive(PartialEq)]
struct Layout {
    fields: Vec<Field>,
    /// For each column, the position of its number in a row.
    places: Vec<Option<usize>>,
}

/// The fields of all flows' controllers, as columns.
///
/// Rows arrive one by one, each with the fields of one controller, and there are many columns: rows
/// wait as plain numbers until there are enough to convert them column by column.
pub(crate) struct FieldColumns {
    columns: Vec<FieldColumn>,
    /// The first is that of a row without fields.
    layouts: Vec<Layout>,
    /// Each flow's number and layout.
    flows: Vec<(u32, usize)>,
    /// The layout of each waiting row, and the numbers of all of them.
    rows: Vec<usize>,
    numbers: Vec<u64>,
}

impl FieldColumns {
    /// The maximum number of waiting numbers; they stay in the processor's cache.
    const WAITING: usize = 4096;

    /// The memory that they add to a row, in bytes.
    pub(crate) fn row_bytes(&self) -> u64 {
        let bits = self.columns.iter();
        let bits = bits.map(|column| kind_of(&column.of).bits(true));
        bits.sum::<u64>().div_ceil(8)
    }

    /// Columns for the fields that each of `flows` declares, in the order of the flows' starts.
    pub(crate) fn new(flows: &[FlowInfo], fields: &[Vec<Field>], fixed: &[Column]) -> Self {
        let mut layouts = vec![Layout {
            fields: Vec::new(),
            places: Vec::new(),
        }];
        let mut columns: Vec<FieldColumn> = Vec::new();
        let mut laid: Vec<(u32, usize)> = flows.iter().map(|flow| (flow.flow, 0)).collect();
        let mut declared: Vec<_> = (0..).zip(flows).zip(fields).collect();
        declared.sort_by_key(|((_, flow), _)| flow.start);
        for ((position, _), fields) in declared {
            let known = layouts.iter().position(|layout| layout.fields == *fields);
            laid[position].1 = known.unwrap_or(layouts.len());
            if known.is_some() {
                continue;
            }
            for of in fields {
                if columns.iter().all(|column| column.of != *of) {
                    columns.push(FieldColumn::new(*of, fixed, &columns, flows.len()));
                }
            }
            layouts.push(Layout {
                fields: fields.clone(),
                places: Vec::new(),
            });
        }
        for layout in &mut layouts {
            let place = |column: &FieldColumn| layout.fields.iter().position(|f| *f == column.of);
            layout.places = columns.iter().map(place).collect();
        }
        Self {
            columns,
            layouts,
            flows: laid,
            rows: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// The next row: the values of a flow's fields in the order of their declaration. Values left
    /// out at the end are null, and so are values of another quantity than declared.
    #[inline]
    pub(crate) fn push(&mut self, flow: u32, show: impl FnOnce(&mut Visitor<'_>)) {
        // Numbers are positions, unless an engine numbers differently.
        let at = self.flows.get(flow as usize).filter(|(f, _)| *f == flow);
        let layout = at.or_else(|| self.flows.iter().find(|(f, _)| *f == flow));
        let number_of = layout.map_or(0, |(_, layout)| *layout);
        let layout = &self.layouts[number_of];
        let start = self.numbers.len();
        let end = start + layout.fields.len();
        self.numbers.resize(end, NONE);
        show(&mut Visitor::row(
            &layout.fields,
            &mut self.numbers[start..],
        ));
        self.rows.push(number_of);
        if end >= Self::WAITING {
            self.turn();
        }
    }

    /// Converts the waiting rows into columns.
    fn turn(&mut self) {
        let mut rest = &self.numbers[..];
        // Rows of one layout after another; if the flows' controllers are alike there is only one.
        for rows in self.rows.chunk_by(|row, next| row == next) {
            let layout = &self.layouts[rows[0]];
            let width = layout.fields.len();
            let (numbers, others) = rest.split_at(rows.len() * width);
            rest = others;
            for (column, place) in self.columns.iter_mut().zip(&layout.places) {
                match place {
                    Some(place) => {
                        column.extend(numbers.chunks_exact(width).map(|row| row[*place]))
                    }
                    None => column.extend(repeat_n(NONE, rows.len())),
                }
            }
        }
        self.rows.clear();
        self.numbers.clear();
    }

    /// The name of each column, and the meaning of its cells.
    #[cfg(feature = "folder")]
    pub(crate) fn described(&self) -> Vec<(String, Coding)> {
        let columns = self.columns.iter();
        columns
            .map(|column| (column.name.clone(), coding_of(&column.of)))
            .collect()
    }

    /// The columns so far.
    #[cfg(feature = "folder")]
    pub(crate) fn so_far(&self) -> impl Iterator<Item = SoFar<'_>> {
        let columns = self.columns.iter().enumerate();
        columns.map(|(number, column)| SoFar {
            cells: &column.cells,
            waiting: match column.of.quantity {
                Quantity::Number => self.waiting(number).map(finite).collect(),
                _ => self.waiting(number).collect(),
            },
            names: Vec::new(),
        })
    }

    /// The cells of the waiting rows in a column, by the bits of their values.
    #[cfg(feature = "folder")]
    fn waiting(&self, column: usize) -> impl Iterator<Item = u64> {
        let mut rest = &self.numbers[..];
        self.rows.iter().map(move |row| {
            let layout = &self.layouts[*row];
            let (numbers, others) = rest.split_at(layout.fields.len());
            rest = others;
            layout.places[column].map_or(NONE, |place| numbers[place])
        })
    }

    pub(crate) fn finish(mut self) -> impl Iterator<Item = (ArrowField, Complete)> {
        self.turn();
        self.columns.into_iter().map(FieldColumn::finish)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use paceline_units::{Bytes, Duration, Value};

    use super::*;
    use crate::rows::SampleRow;
    use crate::table::Row;
    use crate::testing::flow_info;

    const fn named(name: &'static str, quantity: Quantity) -> Field {
        Field { name, quantity }
    }

    #[test]
    fn columns_come_in_the_order_of_the_starts() {
        let rtt = named("min_rtt", Quantity::Duration);
        let (packets, bytes) = (named("w", Quantity::Packets), named("w", Quantity::Bytes));
        let flows = [flow_info(0, 500), flow_info(1, 0), flow_info(2, 0)];
        let fields = [vec![bytes, rtt], vec![rtt, packets], vec![]];
        let mut columns = FieldColumns::new(&flows, &fields, SampleRow::TABLE.columns);
        columns.push(2, |_| {});
        columns.push(0, |visit| {
            visit.show("w", Value::Bytes(Bytes::new(7)));
            visit.show("min_rtt", Value::Duration(Duration::MAX));
        });
        columns.push(2, |visit| visit.show("unknown", Value::Count(1)));
        // Values left out are null.
        columns.push(1, |visit| {
            visit.show("min_rtt", Value::Duration(Duration::from_nanos(9)))
        });
        let columns: Vec<_> = columns.finish().collect();
        let names: Vec<_> = columns
            .iter()
            .map(|(field, _)| field.name().as_str())
            .collect();
        assert_eq!(names, ["cc_min_rtt_ns", "w_packets", "w_bytes"]);
        let cells = |k: usize| -> Vec<Option<i64>> {
            let array = columns[k].1.array();
            array.as_primitive::<Int64Type>().iter().collect()
        };
        assert_eq!(cells(0), [None, None, None, Some(9)]);
        assert_eq!(columns[1].1.array().null_count(), 4);
        assert_eq!(cells(2), [None, Some(7), None, None]);
    }
}
