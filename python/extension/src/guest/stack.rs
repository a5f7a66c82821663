//! A transport of a shared library as one that scenarios can name.

use std::sync::Arc;

use paceline_experiment::{GuestEnd, GuestEndConfig, GuestStack};
use paceline_plugin::{End, EndConfig, Transport};
use paceline_record::GuestInfo;

use super::library::written;

/// A transport of a library.
pub struct LibraryStack {
    pub info: GuestInfo,
    pub transport: Arc<Transport>,
}

impl GuestStack for LibraryStack {
    fn info(&self) -> &GuestInfo {
        &self.info
    }

    fn controllers(&self) -> &[&'static str] {
        &self.transport.controllers
    }

    fn reports_states(&self) -> bool {
        self.transport.reports_states()
    }

    fn end(&self, config: &GuestEndConfig<'_>) -> Result<GuestEnd, String> {
        let given = EndConfig {
            sends: config.sends,
            max_datagram: config.max_datagram,
            seed: config.seed,
            now: config.now,
            controller: config.controller,
        };
        let options = written(config.options);
        let options: Vec<_> = (options.iter())
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let end = End::build(&self.transport, &given, &options);
        let end = end.map_err(|error| error.to_string())?;
        Ok(Box::new(end))
    }
}
