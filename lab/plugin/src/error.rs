/// Why a library, or one of its controllers, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The file is not a shared library, or this machine cannot load it.
    #[error("{0}")]
    Open(#[source] libloading::Error),
    /// It is a shared library for another purpose.
    #[error("it does not define `{function}` ({header})")]
    NotOurs {
        /// The missing function.
        function: &'static str,
        /// The header that describes it.
        header: &'static str,
    },
    /// It speaks another version of the interface.
    #[error(
        "it was built for version {found} of the interface, and this program supports version {ours}"
    )]
    Version {
        /// The library's.
        found: u32,
        /// This program's.
        ours: u32,
    },
    /// A table that does not meet the header's requirements.
    #[error("number {index} of what it has is wrong: {what}")]
    Table {
        /// The controller or transport concerned.
        index: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The controller or transport refused its configuration or an option.
    #[error("`{name}` refused: {message}")]
    Refused {
        /// Its name.
        name: &'static str,
        /// Its message.
        message: String,
    },
}
