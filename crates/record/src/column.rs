//! What a cell of a table can be, and how a column of such cells is kept.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, PrimitiveArray, StringArray,
};
use arrow_schema::{DataType, Field};
use paceline_units::{Bytes, Duration, Instant, Quantity, Rate};

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
    /// Whether columns may be of a type.
    #[cfg(feature = "folder")]
    pub(crate) fn is_one(of: &DataType) -> bool {
        let all = [Self::Id, Self::Int, Self::Real, Self::Flag, Self::Text];
        all.iter().any(|kind| kind.data_type() == *of)
    }

    /// What a cell of a column takes in memory, in bits.
    pub(crate) const fn bits(self, nullable: bool) -> u64 {
        let value = match self {
            Self::Id => 32,
            Self::Int | Self::Real => 64,
            // A byte each until the column is whole.
            Self::Flag => 8,
            // A key, and whether there is one, until the column is whole.
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
    /// Whether a row may have none.
    pub nullable: bool,
    /// The version of the schema that introduced it.
    pub since: u32,
    /// What it says.
    pub doc: &'static str,
    /// The words that it can hold, and what each says; none if there are others.
    pub words: &'static [(&'static str, &'static str)],
}

impl Column {
    /// Its unit, if its name says one.
    pub fn unit(&self) -> Option<&'static str> {
        unit_of(self.name)
    }

    pub(crate) fn field(&self) -> Field {
        field(self.name, self.kind, self.nullable)
    }
}

/// The unit that the end of a name says, if it does.
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

/// A quantity that is there and not infinite; `u64::MAX` is infinite in every unit.
pub(crate) fn finite(value: Option<u64>) -> Option<i64> {
    value.filter(|value| *value != u64::MAX).map(saturate)
}

/// The type of a row's field: it says which column the field is kept in.
///
/// An `Option` makes the column nullable; an infinite quantity in it is null.
#[diagnostic::on_unimplemented(
    message = "a column cannot hold `{Self}`",
    note = "columns hold u32 (a flow or link), u64, Bytes, Rate, Duration, Instant, f64, bool, Text or an enumeration of `words!`, or an Option of these"
)]
pub(crate) trait Cell {
    /// What keeps the column.
    type Cells: Cells;
    const KIND: Kind;
    const NULLABLE: bool = false;
    /// How the column's name must end, if the type says it.
    const SUFFIX: &'static str = "";
    /// The words that it can be.
    const WORDS: &'static [(&'static str, &'static str)] = &[];

    fn push(self, column: &mut Self::Cells);
}

/// A column that grows.
pub(crate) trait Cells: Default {
    fn finish(self) -> ArrayRef;

    /// The cells from this row on, NaN for null; none of text.
    fn numbers(&self, _from: usize) -> Option<Vec<f64>> {
        None
    }
}

/// A cell as a number that a plot takes.
pub(crate) trait Drawn: Copy {
    fn drawn(self) -> f64;
}

/// How each type of cell is drawn.
macro_rules! drawn {
    ($($type:ty, $number:expr;)*) => {$(
        impl Drawn for $type {
            fn drawn(self) -> f64 {
                $number(self)
            }
        }
    )*};
}
drawn! {
    i64, |value| value as f64;
    u32, f64::from;
    f64, |value| value;
    bool, |value| f64::from(u8::from(value));
}

fn drawn<T: Drawn>(values: &[T]) -> impl Iterator<Item = f64> {
    values.iter().map(|value| value.drawn())
}

/// The Arrow type of plain values.
pub(crate) trait Plain: Copy + Default {
    type Arrow: ArrowPrimitiveType<Native = Self>;
}

impl Plain for i64 {
    type Arrow = Int64Type;
}

impl Plain for u32 {
    type Arrow = UInt32Type;
}

impl Plain for f64 {
    type Arrow = Float64Type;
}

impl<T: Plain + Drawn> Cells for Vec<T> {
    fn finish(self) -> ArrayRef {
        Arc::new(PrimitiveArray::<T::Arrow>::from_iter_values(self))
    }

    fn numbers(&self, from: usize) -> Option<Vec<f64>> {
        Some(drawn(self.get(from..).unwrap_or_default()).collect())
    }
}

impl Cells for Vec<bool> {
    fn finish(self) -> ArrayRef {
        Arc::new(BooleanArray::from(self))
    }

    fn numbers(&self, from: usize) -> Option<Vec<f64>> {
        Some(drawn(self.get(from..).unwrap_or_default()).collect())
    }
}

/// Cells of which some are null. Nulls come in runs, so that a value costs no more than where there
/// are none.
#[derive(Default)]
pub(crate) struct Nullable<T> {
    /// The values that there are.
    values: Vec<T>,
    /// After how many values there are nulls, and how many.
    nulls: Vec<(usize, usize)>,
}

/// Cells in order, run by run.
enum Cut<'c, T> {
    Values(&'c [T]),
    Nulls(usize),
}

impl<T> Nullable<T> {
    #[inline]
    pub(crate) fn push(&mut self, cell: Option<T>) {
        match cell {
            Some(value) => self.values.push(value),
            None => self.push_nulls(1),
        }
    }

    /// The cells of `bits`: null unless `is_there`, and else `value`.
    pub(crate) fn extend(
        &mut self,
        bits: impl ExactSizeIterator<Item = u64> + Clone,
        is_there: impl Fn(&u64) -> bool,
        value: impl Fn(u64) -> T,
    ) {
        // Nulls are seldom, and without them no cell is asked for its place.
        if bits.clone().all(|bits| is_there(&bits)) {
            self.values.extend(bits.map(value));
        } else {
            bits.for_each(|bits| self.push(is_there(&bits).then(|| value(bits))));
        }
    }

    pub(crate) fn push_nulls(&mut self, more: usize) {
        let place = self.values.len();
        match self.nulls.last_mut() {
            Some((after, count)) if *after == place => *count += more,
            _ => self.nulls.push((place, more)),
        }
    }

    fn each_run(&self, mut take: impl FnMut(Cut<'_, T>)) {
        let mut rest = &self.values[..];
        for &(after, count) in &self.nulls {
            let (values, others) = rest.split_at(after + rest.len() - self.values.len());
            take(Cut::Values(values));
            take(Cut::Nulls(count));
            rest = others;
        }
        take(Cut::Values(rest));
    }
}

impl<T: Drawn> Nullable<T> {
    fn drawn(&self, from: usize) -> Vec<f64> {
        let (mut skip, mut cells) = (from, Vec::new());
        self.each_run(|run| match run {
            Cut::Values(values) => {
                cells.extend(drawn(values.get(skip..).unwrap_or_default()));
                skip = skip.saturating_sub(values.len());
            }
            Cut::Nulls(count) => {
                cells.extend(std::iter::repeat_n(f64::NAN, count.saturating_sub(skip)));
                skip = skip.saturating_sub(count);
            }
        });
        cells
    }
}

impl<T: Plain + Drawn> Cells for Nullable<T> {
    fn finish(self) -> ArrayRef {
        let mut cells = PrimitiveBuilder::<T::Arrow>::new();
        self.each_run(|run| match run {
            Cut::Values(values) => cells.append_slice(values),
            Cut::Nulls(count) => cells.append_nulls(count),
        });
        Arc::new(cells.finish())
    }

    fn numbers(&self, from: usize) -> Option<Vec<f64>> {
        Some(self.drawn(from))
    }
}

impl Cells for Nullable<bool> {
    fn finish(self) -> ArrayRef {
        let mut cells = BooleanBuilder::new();
        self.each_run(|run| match run {
            Cut::Values(values) => cells.append_slice(values),
            Cut::Nulls(count) => cells.append_nulls(count),
        });
        Arc::new(cells.finish())
    }

    fn numbers(&self, from: usize) -> Option<Vec<f64>> {
        Some(self.drawn(from))
    }
}

/// Quantities: the type, how its number is read, and how names of its columns end.
macro_rules! quantities {
    ($($type:ty, $get:expr, $suffix:literal;)*) => {$(
        impl Cell for $type {
            type Cells = Vec<i64>;
            const KIND: Kind = Kind::Int;
            const SUFFIX: &'static str = $suffix;

            fn push(self, column: &mut Self::Cells) {
                column.push(saturate($get(self)));
            }
        }

        impl Cell for Option<$type> {
            type Cells = Nullable<i64>;
            const KIND: Kind = Kind::Int;
            const NULLABLE: bool = true;
            const SUFFIX: &'static str = $suffix;

            fn push(self, column: &mut Self::Cells) {
                column.push(finite(self.map($get)));
            }
        }
    )*};
}
quantities! {
    u64, u64::from, "";
    Bytes, Bytes::get, "_bytes";
    Rate, Rate::bps, "_bps";
    Duration, Duration::as_nanos, "_ns";
    Instant, Instant::as_nanos, "_ns";
}

/// Types that are kept as they are.
macro_rules! plain {
    ($($type:ty, $cells:ty, $kind:ident, $nullable:literal;)*) => {$(
        impl Cell for $type {
            type Cells = $cells;
            const KIND: Kind = Kind::$kind;
            const NULLABLE: bool = $nullable;

            fn push(self, column: &mut Self::Cells) {
                column.push(self);
            }
        }
    )*};
}
plain! {
    u32, Vec<u32>, Id, false;
    Option<u32>, Nullable<u32>, Id, true;
    Option<f64>, Nullable<f64>, Real, true;
    bool, Vec<bool>, Flag, false;
}

/// A name in a row: most are literals.
pub type Text = Cow<'static, str>;

/// Names, each kept once.
#[derive(Default)]
pub(crate) struct Texts {
    keys: Vec<Option<i32>>,
    names: Vec<Text>,
    places: BTreeMap<Text, i32>,
    /// Names that are literals, by their address.
    literals: Vec<(&'static str, i32)>,
}

impl Texts {
    /// Beyond these a search by address is no faster.
    const LITERALS: usize = 16;

    fn key(&mut self, name: Text) -> i32 {
        let Cow::Borrowed(literal) = name else {
            return self.place(name);
        };
        let known = self
            .literals
            .iter()
            .find(|(n, _)| std::ptr::eq(*n, literal));
        if let Some((_, key)) = known {
            return *key;
        }
        let key = self.place(name);
        if self.literals.len() < Self::LITERALS {
            self.literals.push((literal, key));
        }
        key
    }

    fn place(&mut self, name: Text) -> i32 {
        if let Some(key) = self.places.get(&name) {
            return *key;
        }
        // A table of more names than that does not fit any memory.
        let key = i32::try_from(self.names.len()).unwrap_or(i32::MAX);
        self.names.push(name.clone());
        self.places.insert(name, key);
        key
    }
}

impl Cells for Texts {
    fn finish(self) -> ArrayRef {
        dictionary(self.keys, self.names.iter().map(|name| &**name))
    }
}

fn dictionary<'a>(
    keys: impl IntoIterator<Item = Option<i32>>,
    names: impl Iterator<Item = &'a str>,
) -> ArrayRef {
    let names = StringArray::from_iter_values(names);
    let keys: Int32Array = keys.into_iter().collect();
    // Every key is the place of a name.
    let array = DictionaryArray::<Int32Type>::try_new(keys, Arc::new(names));
    Arc::new(array.expect("keys are places of names"))
}

impl Cell for Text {
    type Cells = Texts;
    const KIND: Kind = Kind::Text;

    fn push(self, column: &mut Texts) {
        let key = column.key(self);
        column.keys.push(Some(key));
    }
}

impl Cell for Option<Text> {
    type Cells = Texts;
    const KIND: Kind = Kind::Text;
    const NULLABLE: bool = true;

    fn push(self, column: &mut Texts) {
        let key = self.map(|name| column.key(name));
        column.keys.push(key);
    }
}

/// An enumeration whose variants a table names by words: see [`words!`].
pub(crate) trait Word: Copy {
    /// How many there are.
    const COUNT: usize;

    fn number(self) -> usize;
    fn word(self) -> &'static str;
}

/// Words of one enumeration, kept in the order in which they come.
pub(crate) struct Words<W> {
    keys: Vec<i32>,
    names: Vec<&'static str>,
    /// The key of each variant that has come.
    places: Vec<Option<i32>>,
    of: PhantomData<W>,
}

impl<W: Word> Default for Words<W> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            names: Vec::new(),
            places: vec![None; W::COUNT],
            of: PhantomData,
        }
    }
}

impl<W: Word> Words<W> {
    pub(crate) fn push(&mut self, word: W) {
        let key = match self.places.get(word.number()) {
            Some(Some(key)) => *key,
            _ => self.add(word),
        };
        self.keys.push(key);
    }

    #[cold]
    fn add(&mut self, word: W) -> i32 {
        let key = self.names.len() as i32;
        self.names.push(word.word());
        if let Some(place) = self.places.get_mut(word.number()) {
            *place = Some(key);
        }
        key
    }
}

impl<W: Word> Cells for Words<W> {
    fn finish(self) -> ArrayRef {
        dictionary(self.keys.into_iter().map(Some), self.names.into_iter())
    }
}

/// Declares an enumeration whose variants a table names by words: documentation, variant, word.
macro_rules! words {
    ($(#[doc = $about:literal])+ pub enum $name:ident {
        $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[doc = $doc])+ $variant),+ }

        impl $name {
            /// Every word, and what it says.
            pub const ALL: &'static [(&'static str, &'static str)] =
                &[$(($word, concat!($($doc),+))),+];

            /// What tables call it.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::column::Word for $name {
            const COUNT: usize = Self::ALL.len();

            fn number(self) -> usize {
                self as usize
            }

            fn word(self) -> &'static str {
                Self::word(self)
            }
        }

        impl $crate::column::Cell for $name {
            type Cells = $crate::column::Words<Self>;
            const KIND: $crate::column::Kind = $crate::column::Kind::Text;
            const WORDS: &'static [(&'static str, &'static str)] = Self::ALL;

            fn push(self, column: &mut Self::Cells) {
                column.push(self);
            }
        }
    };
}
pub(crate) use words;
