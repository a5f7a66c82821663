//! Adapts a shared library's controller to our interface.

use std::sync::Arc;

use paceline_congestion::{Config, Field, Signals};
use paceline_experiment::{
    Fault, Guest, GuestController, GuestError, Options, Prepared, guest_trial,
};
use paceline_plugin::{Foreign, PluginError, Spec};
use paceline_record::GuestInfo;
use paceline_scenario::OptionInput;

use super::declared::{Declared, check};

/// A controller of a library.
pub struct LibraryGuest {
    pub info: GuestInfo,
    pub spec: Arc<Spec>,
}

impl LibraryGuest {
    /// Its options, whose values only it checks.
    pub fn options(&self) -> Vec<Declared> {
        let options = self.spec.options.iter();
        options.map(|(name, _)| Declared::any(name)).collect()
    }
}

impl Guest for LibraryGuest {
    fn info(&self) -> &GuestInfo {
        &self.info
    }

    fn prepare(&self, options: &Options) -> Result<Arc<dyn Prepared>, GuestError> {
        check(&self.info.name, &self.options(), options)?;
        let prepared = WithOptions {
            name: self.info.name.clone(),
            spec: Arc::clone(&self.spec),
            options: written(options),
        };
        // It checks its options when an instance is created.
        match prepared.instance(&guest_trial(), Signals::ALL) {
            Ok(_) => Ok(Arc::new(prepared)),
            Err(error) => Err(GuestError {
                message: format!("`{}`: {error}", self.info.name),
                ..GuestError::default()
            }),
        }
    }
}

/// Options as a library reads them.
pub fn written(options: &Options) -> Vec<(String, String)> {
    let written = options.iter().map(|(name, value)| {
        let value = match value {
            OptionInput::Flag(flag) => flag.to_string(),
            OptionInput::Integer(number) => number.to_string(),
            OptionInput::Millionths(number) => format!("{}", *number as f64 / 1e6),
            OptionInput::Text(text) => text.clone(),
        };
        (name.clone(), value)
    });
    written.collect()
}

struct WithOptions {
    name: String,
    spec: Arc<Spec>,
    options: Vec<(String, String)>,
}

impl WithOptions {
    fn instance(&self, config: &Config, signals: Signals) -> Result<Foreign, PluginError> {
        let options = self.options.iter();
        let options: Vec<_> = options.map(|(name, value)| (&**name, &**value)).collect();
        Foreign::build(&self.spec, config, signals, &options)
    }
}

impl Prepared for WithOptions {
    fn fields(&self) -> &[Field] {
        &self.spec.fields
    }

    fn phases(&self) -> &[&'static str] {
        &self.spec.phases
    }

    fn build(
        &self,
        config: &Config,
        signals: Signals,
        fault: &Fault,
    ) -> Result<GuestController, String> {
        let instance = self.instance(config, signals);
        let (name, fault) = (self.name.clone(), fault.clone());
        let report = move |what| fault.report(format!("`{name}` {what}"));
        match instance {
            Ok(foreign) => Ok(Box::new(foreign.reporting(report))),
            Err(error) => Err(format!("`{}`: {error}", self.name)),
        }
    }
}
