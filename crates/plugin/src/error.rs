use paceline_capi::types::PACELINE_ABI_VERSION;

/// Why a library or a controller of it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The file is no shared library, or one that this machine cannot load.
    #[error("{0}")]
    Open(#[source] libloading::Error),
    /// It is a shared library of something else.
    #[error("it does not define `paceline_controller_get` (include/paceline_controller.h)")]
    NotOurs,
    /// It speaks another version of the interface.
    #[error(
        "it was built for version {0} of the interface, and this program speaks version {PACELINE_ABI_VERSION}"
    )]
    Version(u32),
    /// A table that does not hold what the header asks for.
    #[error("its controller {index} is wrong: {what}")]
    Table {
        /// Which of its controllers.
        index: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The controller refused its configuration or an option.
    #[error("`{controller}` refused: {message}")]
    Refused {
        /// Its name.
        controller: &'static str,
        /// What it said.
        message: String,
    },
}
