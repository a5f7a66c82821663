//! The columns of `samples` that controllers declare, after those that every record has.

use arrow_array::ArrayRef;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder};
use arrow_schema::Field as ArrowField;
use paceline_units::{Field, Gain, Quantity, Value};

use crate::column::{Cells, Column, Kind, field, finite};
use crate::info::FlowInfo;

/// A column of a field. Controllers that call one quantity by one name share it; two quantities of
/// one name are two columns.
struct FieldColumn {
    of: Field,
    name: String,
    cells: FieldCells,
    /// How many rows it has a cell for.
    filled: usize,
}

enum FieldCells {
    Int(Int64Builder),
    Real(Float64Builder),
    Flag(BooleanBuilder),
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
        Quantity::Gain => Kind::Real,
        Quantity::Flag => Kind::Flag,
        _ => Kind::Int,
    }
}

/// What columns of these fields add to a row in memory, in bytes.
pub fn field_bytes<'f>(fields: impl IntoIterator<Item = &'f Field>) -> u64 {
    let bits = fields.into_iter().map(|field| kind_of(field).bits(true));
    bits.sum::<u64>().div_ceil(8)
}

impl FieldColumn {
    /// A column beside those that are there. A name that is taken gets `cc_` in front
    /// (`cc_min_rtt_ns` is the controller's, `min_rtt_ns` the transport's).
    fn new(of: Field, fixed: &[Column], others: &[Self]) -> Self {
        let mut name = column_name(&of);
        let taken = |name: &str| {
            fixed.iter().any(|column| column.name == name)
                || others.iter().any(|column| column.name == name)
        };
        while taken(&name) {
            name.insert_str(0, "cc_");
        }
        let cells = match kind_of(&of) {
            Kind::Real => FieldCells::Real(Float64Builder::new()),
            Kind::Flag => FieldCells::Flag(BooleanBuilder::new()),
            _ => FieldCells::Int(Int64Builder::new()),
        };
        Self {
            of,
            name,
            cells,
            filled: 0,
        }
    }

    /// Nulls up to this row.
    fn pad(&mut self, row: usize) {
        let missing = row.saturating_sub(self.filled);
        if missing > 0 {
            match &mut self.cells {
                FieldCells::Int(cells) => cells.append_nulls(missing),
                FieldCells::Real(cells) => cells.append_nulls(missing),
                FieldCells::Flag(cells) => cells.append_nulls(missing),
            }
            self.filled = row;
        }
    }

    /// The cell of a row; what is infinite, or of another quantity than declared, is null.
    fn push(&mut self, row: usize, value: Value) {
        self.pad(row);
        match &mut self.cells {
            FieldCells::Int(cells) => cells.append_option(match value {
                Value::Bytes(v) => finite(Some(v.get())),
                Value::Rate(v) => finite(Some(v.bps())),
                Value::Duration(v) => finite(Some(v.as_nanos())),
                Value::Packets(v) | Value::Count(v) => finite(Some(v)),
                Value::Gain(_) | Value::Flag(_) => None,
            }),
            FieldCells::Real(cells) => cells.append_option(match value {
                Value::Gain(v) => Some(f64::from(v.millionths()) / f64::from(Gain::SCALE)),
                _ => None,
            }),
            FieldCells::Flag(cells) => cells.append_option(match value {
                Value::Flag(v) => Some(v),
                _ => None,
            }),
        }
        self.filled += 1;
    }

    fn finish(mut self, rows: usize) -> (ArrowField, ArrayRef) {
        self.pad(rows);
        let array = match self.cells {
            FieldCells::Int(cells) => Cells::finish(cells),
            FieldCells::Real(cells) => Cells::finish(cells),
            FieldCells::Flag(cells) => Cells::finish(cells),
        };
        (field(&self.name, kind_of(&self.of), true), array)
    }
}

/// The fields of all flows' controllers, as columns.
pub(crate) struct FieldColumns {
    columns: Vec<FieldColumn>,
    /// For each flow, its number and the columns of its fields in their order.
    flows: Vec<(u32, Box<[usize]>)>,
}

impl FieldColumns {
    /// What they add to a row in memory, in bytes.
    pub(crate) fn row_bytes(&self) -> u64 {
        field_bytes(self.columns.iter().map(|column| &column.of))
    }

    /// Columns for the fields that each of `flows` declares, in the order of the flows' starts.
    pub(crate) fn new(flows: &[FlowInfo], fields: &[Vec<Field>], fixed: &[Column]) -> Self {
        let mut declared: Vec<_> = flows.iter().zip(fields).enumerate().collect();
        declared.sort_by_key(|(_, (flow, _))| flow.start);
        let mut columns: Vec<FieldColumn> = Vec::new();
        let mut places: Vec<(u32, Box<[usize]>)> = flows
            .iter()
            .map(|flow| (flow.flow, Box::default()))
            .collect();
        for (position, (_, fields)) in declared {
            let place = |of: &Field| {
                columns.iter().position(|c| c.of == *of).unwrap_or_else(|| {
                    let column = FieldColumn::new(*of, fixed, &columns);
                    columns.push(column);
                    columns.len() - 1
                })
            };
            let own = fields.iter().map(place).collect();
            if let Some((_, places)) = places.get_mut(position) {
                *places = own;
            }
        }
        Self {
            columns,
            flows: places,
        }
    }

    /// The values of a flow's fields in a row, in the order of their declaration.
    pub(crate) fn push(
        &mut self,
        row: usize,
        flow: u32,
        visit: impl FnOnce(&mut dyn FnMut(&'static str, Value)),
    ) {
        // Numbers are positions, unless an engine counts otherwise.
        let at = self.flows.get(flow as usize).filter(|(f, _)| *f == flow);
        let found = at.or_else(|| self.flows.iter().find(|(f, _)| *f == flow));
        let Some((_, places)) = found else {
            return;
        };
        let (columns, mut places) = (&mut self.columns, places.iter());
        visit(&mut |name, value| {
            if let Some(column) = places.next().and_then(|place| columns.get_mut(*place)) {
                debug_assert_eq!(column.of.name, name, "fields come as they are declared");
                column.push(row, value);
            }
        });
    }

    pub(crate) fn finish(self, rows: usize) -> impl Iterator<Item = (ArrowField, ArrayRef)> {
        let columns = self.columns.into_iter();
        columns.map(move |column| column.finish(rows))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use paceline_units::{Bytes, Duration};

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
        columns.push(1, 0, |visit| {
            visit("w", Value::Bytes(Bytes::new(7)));
            visit("min_rtt", Value::Duration(Duration::MAX));
        });
        columns.push(2, 2, |visit| visit("unknown", Value::Count(1)));
        // What it leaves out is null.
        columns.push(3, 1, |visit| {
            visit("min_rtt", Value::Duration(Duration::from_nanos(9)))
        });
        let columns: Vec<_> = columns.finish(4).collect();
        let names: Vec<_> = columns
            .iter()
            .map(|(field, _)| field.name().as_str())
            .collect();
        assert_eq!(names, ["cc_min_rtt_ns", "w_packets", "w_bytes"]);
        let cells = |k: usize| -> Vec<Option<i64>> {
            columns[k].1.as_primitive::<Int64Type>().iter().collect()
        };
        assert_eq!(cells(0), [None, None, None, Some(9)]);
        assert_eq!(columns[1].1.null_count(), 4);
        assert_eq!(cells(2), [None, Some(7), None, None]);
    }
}
