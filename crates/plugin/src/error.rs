/// Why a library or a controller of it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The file is no shared library, or one that this machine cannot load.
    #[error("{0}")]
    Open(#[source] libloading::Error),
    /// It is a shared library of something else.
    #[error("it does not define `{function}` (include/{header})")]
    NotOurs {
        /// The function that is looked for.
        function: &'static str,
        /// The header that describes it.
        header: &'static str,
    },
    /// It speaks another version of the interface.
    #[error(
        "it was built for version {found} of the interface, and this program speaks version {ours}"
    )]
    Version {
        /// The library's.
        found: u32,
        /// This program's.
        ours: u32,
    },
    /// A table that does not hold what the header asks for.
    #[error("number {index} of what it has is wrong: {what}")]
    Table {
        /// Which of its controllers or transports.
        index: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The controller or transport refused its configuration or an option.
    #[error("`{name}` refused: {message}")]
    Refused {
        /// Its name.
        name: &'static str,
        /// What it said.
        message: String,
    },
}
