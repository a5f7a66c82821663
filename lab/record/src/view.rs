//! Columns of a table, taken by name and type.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{
    Array, Float64Array, Int64Array, RecordBatch, StringArray, TypedDictionaryArray, UInt32Array,
};

use crate::error::RecordError;

/// A table whose columns are taken by name and type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableView<'a> {
    pub(crate) table: &'static str,
    pub(crate) batch: &'a RecordBatch,
}

impl<'a> TableView<'a> {
    fn column<T>(
        self,
        name: &'static str,
        cast: impl Fn(&'a dyn Array) -> Option<T>,
    ) -> Result<T, RecordError> {
        let column = self.batch.column_by_name(name);
        column
            .and_then(|c| cast(c.as_ref()))
            .ok_or(RecordError::Column {
                table: self.table,
                column: name,
            })
    }

    /// Quantities, some of which may be absent.
    pub(crate) fn ints(self, name: &'static str) -> Result<&'a Int64Array, RecordError> {
        self.column(name, |c| c.as_primitive_opt::<Int64Type>())
    }

    /// Quantities that a record need not have.
    pub(crate) fn ints_if_any(self, name: &'static str) -> Option<&'a Int64Array> {
        self.batch
            .column_by_name(name)?
            .as_primitive_opt::<Int64Type>()
    }

    /// Quantities, none of which is absent.
    pub(crate) fn values(self, name: &'static str) -> Result<&'a [i64], RecordError> {
        self.column(name, |c| {
            let ints = c.as_primitive_opt::<Int64Type>()?;
            (ints.null_count() == 0).then(|| &**ints.values())
        })
    }

    /// Values of any unit.
    pub(crate) fn numbers(self, name: &'static str) -> Result<&'a Float64Array, RecordError> {
        self.column(name, |c| c.as_primitive_opt::<Float64Type>())
    }

    /// Numbers of flows or links.
    pub(crate) fn ids(self, name: &'static str) -> Result<&'a UInt32Array, RecordError> {
        self.column(name, |c| c.as_primitive_opt::<UInt32Type>())
    }

    /// Names.
    pub(crate) fn texts(
        self,
        name: &'static str,
    ) -> Result<TypedDictionaryArray<'a, Int32Type, StringArray>, RecordError> {
        self.column(name, |c| {
            c.as_dictionary_opt::<Int32Type>()?.downcast_dict()
        })
    }
}
