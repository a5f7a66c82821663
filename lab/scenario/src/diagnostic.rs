//! Errors in a scenario, with their location.

use std::fmt;

/// The kind of an error. `--json` shows the names of [`Kind::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// The text is not TOML.
    Syntax,
    /// A key without meaning here.
    UnknownKey,
    /// A required key is missing.
    MissingKey,
    /// A value of a type that the key does not accept.
    WrongType,
    /// A value that the key does not accept.
    BadValue,
    /// A value, or a consequence of several, beyond the limits of a run.
    Limit,
    /// An override (`--set KEY=VALUE`) that cannot be applied.
    Override,
}

impl Kind {
    /// The kind in one word, for machines.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One error. Its `Display` shows the source line with the position marked, without a final
/// newline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    /// Its kind.
    pub kind: Kind,
    /// What is wrong, including the value found.
    pub message: String,
    /// The file as it was named, or the override as it was given.
    pub file: String,
    /// Line, from 1; `None` in an override.
    pub line: Option<usize>,
    /// Column in characters, from 1; `None` in an override.
    pub column: Option<usize>,
    /// The key's path, such as `flows[1].cc`; empty if the error concerns the whole file.
    pub key: String,
    /// What would be correct.
    pub hint: Option<String>,
    /// The source line, and the number of characters to mark.
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
                // Tabs are kept, so that the caret is under its text whatever their width.
                let blank = |c| if c == '\t' { '\t' } else { ' ' };
                let indent: String = text.chars().take(column - 1).map(blank).collect();
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
