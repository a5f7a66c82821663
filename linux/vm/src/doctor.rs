//! Whether this machine can run a kernel in virtual time.

use serde_json::{Value, json};

use crate::image::images;
use crate::machine::version;

/// A check of the doctor: `name`, `state`, `found`, and the command that fixes it (`fix`).
pub fn doctor() -> Value {
    let check = |state: &str, found: String, fix: Option<String>| json!({ "name": "kernels in virtual time", "state": state, "found": found, "fix": fix });
    let qemu = match version() {
        Ok(qemu) => qemu,
        Err(missing) => return check("lacking", missing.what, missing.hint),
    };
    let prepare = Some("paceline vm prepare".to_owned());
    match images() {
        Ok(images) => match images.first() {
            None => check(
                "lacking",
                format!("{qemu}, and no snapshot of a kernel"),
                prepare,
            ),
            Some(image) => match image.fits(&qemu) {
                Ok(()) => check("good", format!("Linux {} in {qemu}", image.kernel), None),
                Err(missing) => check("lacking", missing.what, missing.hint),
            },
        },
        Err(error) => check("lacking", error.to_string(), prepare),
    }
}
