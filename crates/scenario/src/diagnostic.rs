//! What is wrong with a scenario, and where.

use std::fmt;

/// What sort of problem it is. The names that `--json` shows are those of [`Kind::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The text is not TOML.
    Syntax,
    /// A key that has no meaning here.
    UnknownKey,
    /// A key that must be there is not.
    MissingKey,
    /// A value of another type than the key takes.
    WrongType,
    /// A value that the key does not take.
    BadValue,
    /// A value, or what follows from several, beyond what a run may ask for.
    Limit,
    /// An override (`--set KEY=VALUE`) that cannot be applied.
    Override,
}

impl Kind {
    /// The kind in one word, for machines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::UnknownKey => "unknown-key",
            Self::MissingKey => "missing-key",
            Self::WrongType => "wrong-type",
            Self::BadValue => "bad-value",
            Self::Limit => "limit",
            Self::Override => "override",
        }
    }
}

/// One problem. Its `Display` shows the source line with the place marked, without a final newline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    /// What sort of problem it is.
    pub kind: Kind,
    /// What is wrong, with the value that was found.
    pub message: String,
    /// The file as it was named, or the override as it was given.
    pub file: String,
    /// Line, from 1; `None` in an override.
    pub line: Option<usize>,
    /// Column in characters, from 1; `None` in an override.
    pub column: Option<usize>,
    /// The key's path, such as `flows[1].cc`; empty when it is about the whole file.
    pub key: String,
    /// What would be right.
    pub hint: Option<String>,
    /// The source line, and how many characters of it are meant.
    pub(crate) excerpt: Option<(String, usize)>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        let mut margin = String::new();
        if let (Some(line), Some(column)) = (self.line, self.column) {
            let number = line.to_string();
            margin = " ".repeat(number.len());
            write!(f, "\n{margin}--> {}:{line}:{column}", self.file)?;
            if let Some((text, length)) = &self.excerpt {
                // Tabs are kept, so that the caret stands under its text however wide they are.
                let indent: String = text
                    .chars()
                    .take(column - 1)
                    .map(|c| if c == '\t' { '\t' } else { ' ' })
                    .collect();
                let carets = "^".repeat((*length).max(1));
                write!(
                    f,
                    "\n{margin} |\n{number} | {text}\n{margin} | {indent}{carets}"
                )?;
            }
        } else {
            write!(f, "\n--> {}", self.file)?;
        }
        if !self.key.is_empty() {
            write!(f, "\n{margin} = key: {}", self.key)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{margin} = help: {hint}")?;
        }
        Ok(())
    }
}
