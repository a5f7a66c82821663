//! Options of a guest.

use paceline_experiment::{GuestError, Options, list, nearest};
use paceline_scenario::OptionInput;

/// An option that a guest declares.
#[derive(Clone, Debug)]
pub struct Declared {
    pub name: String,
    /// `flag`, `integer`, `number`, `text` or `any`.
    pub kind: String,
}

impl Declared {
    /// One whose values only the guest checks.
    pub fn any(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: "any".to_owned(),
        }
    }

    fn takes(&self, value: &OptionInput) -> bool {
        match value {
            OptionInput::Flag(_) => matches!(&*self.kind, "flag" | "any"),
            OptionInput::Integer(_) => matches!(&*self.kind, "integer" | "number" | "any"),
            OptionInput::Millionths(_) => matches!(&*self.kind, "number" | "any"),
            OptionInput::Text(_) => matches!(&*self.kind, "text" | "any"),
        }
    }
}

/// Checks that the options set in a scenario are declared.
pub fn check(guest: &str, declared: &[Declared], options: &Options) -> Result<(), GuestError> {
    for (name, value) in options {
        let Some(option) = declared.iter().find(|option| option.name == *name) else {
            let names: Vec<&str> = declared.iter().map(|option| &*option.name).collect();
            let all = match names.is_empty() {
                true => "it has none".to_owned(),
                false => format!("it has {}", list(&names)),
            };
            return Err(GuestError {
                option: Some(name.clone()),
                message: format!("`{guest}` has no option `{name}`; {all}"),
                hint: nearest(name, names),
            });
        };
        if !option.takes(value) {
            let wanted = match &*option.kind {
                "flag" => "true or false",
                "integer" => "a whole number",
                "number" => "a number",
                _ => "a text",
            };
            return Err(GuestError {
                option: Some(name.clone()),
                message: format!("option `{name}` of `{guest}` takes {wanted}"),
                hint: None,
            });
        }
    }
    Ok(())
}
