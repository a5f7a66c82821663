//! The cells of a table, and how a column of them is stored.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, PrimitiveArray, StringArray,
};
use arrow_schema::{DataType, Field};
use duplicate::duplicate_item;
use paceline_units::options::Choice;
use paceline_units::{Bytes, Duration, Gain, Instant, Quantity, Rate};
use serde::{Deserialize, Serialize};

use crate::packed::Packed;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Number of a flow or link.
    Id,
    /// A quantity. Signed, so that the difference of two columns is right in every tool.
    Int,
    /// A real number.
    Real,
    /// Yes or no.
    Flag,
    /// A name, dictionary-encoded.
    Text,
}

impl Kind {
    /// Its type in Arrow.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Id => DataType::UInt32,
            Self::Int => DataType::Int64,
            Self::Real => DataType::Float64,
            Self::Flag => DataType::Boolean,
            Self::Text => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        }
    }
}

impl Kind {
    /// The kind of columns of a type, if they may have it.
    #[cfg(feature = "folder")]
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        let mut all = [Self::Id, Self::Int, Self::Real, Self::Flag, Self::Text].into_iter();
        all.find(|kind| kind.data_type() == *data_type)
    }

    /// The memory of a cell when its table is read, in bits.
    pub(crate) const fn bits(self, nullable: bool) -> u64 {
        let value = match self {
            Self::Id => 32,
            Self::Int | Self::Real => 64,
            Self::Flag => 8,
            Self::Text => 64,
        };
        value + nullable as u64
    }
}

/// A column that every table of its name has.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name, which ends in its unit.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether a row may have no value.
    pub nullable: bool,
    /// The version of the schema that introduced it.
    pub since: u32,
    /// Its description.
    pub doc: &'static str,
    /// The words that it can hold, with their meanings; none if the set is open.
    pub words: &'static [(&'static str, &'static str)],
}

impl Column {
    /// Its unit, if its name ends in one.
    pub fn unit(&self) -> Option<&'static str> {
        unit_of(self.name)
    }

    pub(crate) fn field(&self) -> Field {
        field(self.name, self.kind, self.nullable)
    }
}

/// The unit at the end of a name, if there is one.
pub(crate) fn unit_of(name: &str) -> Option<&'static str> {
    Quantity::of_name(name).map(Quantity::unit)
}

/// A column of a schema, with its unit.
pub(crate) fn field(name: &str, kind: Kind, nullable: bool) -> Field {
    let field = Field::new(name, kind.data_type(), nullable);
    match unit_of(name) {
        Some(unit) => field.with_metadata([("unit".to_owned(), unit.to_owned())]),
        None => field,
    }
}

/// A quantity that does not fit saturates.
pub(crate) fn saturate(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The type of a row's field, which determines the type of its column.
///
/// An `Option` makes the column nullable; an infinite quantity in it is null.
pub(crate) trait Cell {
    /// How the column is stored.
    type Cells: Cells;
    const KIND: Kind;
    const NULLABLE: bool = false;
    /// The required end of the column's name, if the type prescribes one.
    const SUFFIX: &'static str = "";
    /// The words that it can hold.
    const WORDS: &'static [(&'static str, &'static str)] = &[];

    fn push(self, column: &mut Self::Cells);
}

/// Marks an empty cell. A quantity that is infinite in its unit is also stored as empty.
pub(crate) const NONE: u64 = u64::MAX;

/// A growing column.
pub(crate) trait Cells {
    /// An empty one; its rows cycle through this many flows or links.
    fn new(period: usize) -> Self;

    /// Its cells, and their names if it is a column of names.
    fn finish(self) -> (Packed, Vec<Text>);

    /// Its cells, and their names, so far.
    fn so_far(&self) -> SoFar<'_>;
}

/// A growing column, as it is.
#[cfg_attr(
    not(feature = "folder"),
    expect(dead_code, reason = "only a stream needs all of it")
)]
pub(crate) struct SoFar<'c> {
    pub(crate) cells: &'c Packed,
    /// Cells after those that are not packed yet.
    pub(crate) waiting: Vec<u64>,
    /// The names of its cells, if it is a column of names.
    pub(crate) names: Vec<&'c str>,
}

#[cfg(feature = "folder")]
impl SoFar<'_> {
    /// The cells from one on.
    pub(crate) fn cells_from(&self, first: usize) -> Vec<u64> {
        let mut cells = self.cells.cells_from(first);
        cells.extend(
            self.waiting
                .iter()
                .skip(first.saturating_sub(self.cells.len())),
        );
        cells
    }
}

impl Cells for Packed {
    fn new(period: usize) -> Self {
        Self::new(period)
    }

    fn finish(self) -> (Packed, Vec<Text>) {
        (self, Vec::new())
    }

    fn so_far(&self) -> SoFar<'_> {
        SoFar {
            cells: self,
            waiting: Vec::new(),
            names: Vec::new(),
        }
    }
}

/// The meaning of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Coding {
    /// The number of a flow or link.
    Id,
    /// A quantity.
    Int,
    /// Millionths.
    Ratio,
    /// A floating-point number, by its bits.
    Real,
    /// 0 or 1.
    Flag,
    /// The index of a name.
    Text,
}

impl Coding {
    pub(crate) const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Id => Self::Id,
            Kind::Int => Self::Int,
            Kind::Real => Self::Real,
            Kind::Flag => Self::Flag,
            Kind::Text => Self::Text,
        }
    }

    /// The type of its column.
    #[cfg(feature = "folder")]
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Id => Kind::Id,
            Self::Int => Kind::Int,
            Self::Ratio | Self::Real => Kind::Real,
            Self::Flag => Kind::Flag,
            Self::Text => Kind::Text,
        }
    }

    /// A cell as a number for plots, NaN for none.
    pub(crate) fn drawn(self, cell: u64) -> f64 {
        match (self, cell) {
            (_, NONE) => f64::NAN,
            (Self::Real, bits) => f64::from_bits(bits),
            (Self::Ratio, millionths) => ratio(millionths),
            (Self::Int, number) => saturate(number) as f64,
            (_, number) => number as f64,
        }
    }
}

/// The cells of a growing column from a row on, for plots; none for names.
pub(crate) fn drawn<C: Cell>(column: &C::Cells, from: usize) -> Option<Vec<f64>> {
    if C::KIND == Kind::Text {
        return None;
    }
    let cells = column.so_far().cells.cells_from(from).into_iter();
    Some(cells.map(|cell| Coding::of(C::KIND).drawn(cell)).collect())
}

fn ratio(millionths: u64) -> f64 {
    millionths as f64 / f64::from(Gain::SCALE)
}

/// A complete column.
#[derive(Clone, Debug)]
pub(crate) struct Complete {
    pub(crate) coding: Coding,
    pub(crate) cells: Packed,
    pub(crate) names: Vec<Text>,
}

impl Complete {
    /// A column of cells of a type.
    pub(crate) fn new<C: Cell>(cells: C::Cells) -> Self {
        let (cells, names) = cells.finish();
        Self {
            coding: Coding::of(C::KIND),
            cells,
            names,
        }
    }

    pub(crate) fn array(&self) -> ArrayRef {
        let cells = self.cells.cells_from(0);
        match self.coding {
            Coding::Id => primitive::<UInt32Type>(&cells, |id| id as u32),
            Coding::Int => primitive::<Int64Type>(&cells, saturate),
            Coding::Ratio => primitive::<Float64Type>(&cells, ratio),
            Coding::Real => primitive::<Float64Type>(&cells, f64::from_bits),
            Coding::Flag if cells.contains(&NONE) => {
                let flag = |cell: &u64| (*cell != NONE).then_some(*cell != 0);
                Arc::new(cells.iter().map(flag).collect::<BooleanArray>())
            }
            Coding::Flag => {
                let flags: Vec<bool> = cells.iter().map(|cell| *cell != 0).collect();
                Arc::new(BooleanArray::from(flags))
            }
            Coding::Text => {
                let key = |cell: &u64| (*cell != NONE).then_some(*cell as i32);
                let keys: Int32Array = cells.iter().map(key).collect();
                let names = StringArray::from_iter_values(self.names.iter().map(|name| &**name));
                // Every key is the index of a name.
                let array = DictionaryArray::<Int32Type>::try_new(keys, Arc::new(names));
                Arc::new(array.expect("keys are places of names"))
            }
        }
    }
}

fn primitive<T: ArrowPrimitiveType>(cells: &[u64], value: impl Fn(u64) -> T::Native) -> ArrayRef {
    if cells.contains(&NONE) {
        let there = |cell: &u64| (*cell != NONE).then(|| value(*cell));
        Arc::new(cells.iter().map(there).collect::<PrimitiveArray<T>>())
    } else {
        let values = cells.iter().map(|cell| value(*cell));
        Arc::new(PrimitiveArray::<T>::from_iter_values(values))
    }
}

/// A value that is stored as a number.
#[diagnostic::on_unimplemented(
    message = "a column cannot hold `{Self}`",
    note = "columns hold u32 (a flow or link), u64, Bytes, Rate, Duration, Instant, f64, bool, Text or an enumeration of `choice!`, or an Option of these"
)]
pub(crate) trait Number: Copy {
    const KIND: Kind;
    const SUFFIX: &'static str;

    fn bits(self) -> u64;
}

#[duplicate_item(
    Value       Stored  Suffix      number;
    [u64]       [Int]   [""]        [convert::identity];
    [Bytes]     [Int]   ["_bytes"]  [Bytes::get];
    [Rate]      [Int]   ["_bps"]    [Rate::bps];
    [Duration]  [Int]   ["_ns"]     [Duration::as_nanos];
    [Instant]   [Int]   ["_ns"]     [Instant::as_nanos];
    [u32]       [Id]    [""]        [u64::from];
    [f64]       [Real]  [""]        [f64::to_bits];
    [bool]      [Flag]  [""]        [u64::from];
)]
impl Number for Value {
    const KIND: Kind = Kind::Stored;
    const SUFFIX: &'static str = Suffix;

    fn bits(self) -> u64 {
        number(self)
    }
}

impl<T: Number> Cell for T {
    type Cells = Packed;
    const KIND: Kind = T::KIND;
    const SUFFIX: &'static str = T::SUFFIX;

    fn push(self, column: &mut Packed) {
        // An infinite quantity is present.
        column.push(self.bits().min(NONE - 1));
    }
}

impl<T: Number> Cell for Option<T> {
    type Cells = Packed;
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;
    const SUFFIX: &'static str = T::SUFFIX;

    fn push(self, column: &mut Packed) {
        column.push(self.map_or(NONE, T::bits));
    }
}

/// A name in a row: most are literals.
pub type Text = Cow<'static, str>;

/// Names, each stored once.
pub(crate) struct Texts {
    keys: Packed,
    names: Vec<Text>,
    places: BTreeMap<Text, u64>,
    /// Names that are literals, by their address.
    literals: Vec<(&'static str, u64)>,
}

impl Texts {
    /// With more than these, a search by address is no faster.
    const LITERALS: usize = 16;

    fn key(&mut self, name: Text) -> u64 {
        let Cow::Borrowed(literal) = name else {
            return self.place(name);
        };
        let mut literals = self.literals.iter();
        let known = literals.find(|(n, _)| std::ptr::eq(*n, literal));
        if let Some((_, key)) = known {
            return *key;
        }
        let key = self.place(name);
        if self.literals.len() < Self::LITERALS {
            self.literals.push((literal, key));
        }
        key
    }

    fn place(&mut self, name: Text) -> u64 {
        if let Some(key) = self.places.get(&name) {
            return *key;
        }
        let key = self.names.len() as u64;
        self.names.push(name.clone());
        self.places.insert(name, key);
        key
    }
}

impl Cells for Texts {
    fn new(period: usize) -> Self {
        Self {
            keys: Packed::new(period),
            names: Vec::new(),
            places: BTreeMap::new(),
            literals: Vec::new(),
        }
    }

    fn finish(self) -> (Packed, Vec<Text>) {
        (self.keys, self.names)
    }

    fn so_far(&self) -> SoFar<'_> {
        SoFar {
            cells: &self.keys,
            waiting: Vec::new(),
            names: self.names.iter().map(|name| &**name).collect(),
        }
    }
}

impl Cell for Text {
    type Cells = Texts;
    const KIND: Kind = Kind::Text;

    fn push(self, column: &mut Texts) {
        let key = column.key(self);
        column.keys.push(key);
    }
}

impl Cell for Option<Text> {
    type Cells = Texts;
    const KIND: Kind = Kind::Text;
    const NULLABLE: bool = true;

    fn push(self, column: &mut Texts) {
        let key = self.map_or(NONE, |name| column.key(name));
        column.keys.push(key);
    }
}

/// Words of one enumeration, stored in the order of their first use.
pub(crate) struct Words<W> {
    keys: Packed,
    names: Vec<&'static str>,
    /// The key of each variant used so far.
    places: Vec<Option<u64>>,
    of: PhantomData<W>,
}

impl<W: Choice> Words<W> {
    pub(crate) fn push(&mut self, word: W) {
        let key = match self.places.get(word.number()) {
            Some(Some(key)) => *key,
            _ => self.add(word),
        };
        self.keys.push(key);
    }

    #[cold]
    fn add(&mut self, word: W) -> u64 {
        let key = self.names.len() as u64;
        self.names.push(word.word());
        if let Some(place) = self.places.get_mut(word.number()) {
            *place = Some(key);
        }
        key
    }
}

impl<W: Choice> Cells for Words<W> {
    fn new(period: usize) -> Self {
        Self {
            keys: Packed::new(period),
            names: Vec::new(),
            places: vec![None; W::ALL.len()],
            of: PhantomData,
        }
    }

    fn finish(self) -> (Packed, Vec<Text>) {
        let names = self.names.into_iter().map(Text::Borrowed);
        (self.keys, names.collect())
    }

    fn so_far(&self) -> SoFar<'_> {
        SoFar {
            cells: &self.keys,
            waiting: Vec::new(),
            names: self.names.clone(),
        }
    }
}
