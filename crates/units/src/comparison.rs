use core::fmt;

/// How a measured value is compared with a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
}

impl Comparison {
    /// All of them; an operator that is a prefix of another comes after it.
    pub const ALL: [Self; 5] = [
        Self::AtLeast,
        Self::AtMost,
        Self::Equal,
        Self::Greater,
        Self::Less,
    ];

    /// As it is written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::Equal => "==",
        }
    }

    /// Whether `value` satisfies `bound`; NaN never does.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Less => value < bound,
            Self::AtMost => value <= bound,
            Self::Greater => value > bound,
            Self::AtLeast => value >= bound,
            Self::Equal => value == bound,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}
