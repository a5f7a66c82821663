//! Enumerations whose variants have names: states of a controller, choices of an option.

/// Declares one; `WORDS` holds the words in order.
macro_rules! words {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            #[allow(dead_code, reason = "some are shown in part")]
            pub(crate) const WORDS: &'static [&'static str] = &[$($word),+];

            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}
pub(crate) use words;
