//! Device selectors in CEL, as Kubernetes means them.
//!
//! ```
//! use berth_cel::{Budget, OwnedAttribute, OwnedDevice, compile};
//!
//! let mut gpu = OwnedDevice::new("gpu.example.com");
//! gpu.set_attribute("model", OwnedAttribute::String("H100".to_owned()));
//!
//! let selector = compile("device.attributes['gpu.example.com'].model == 'H100'").expect("valid");
//! assert_eq!(selector.matches(&gpu, &mut Budget::default()), Ok(true));
//! ```
//!
//! Compiling finds what is wrong with the text; evaluating depends on the device alone, so that a
//! result may be kept for as long as the device doesn't change.

mod ast;
mod check;
mod cost;
mod device;
mod error;
mod eval;
mod library;
mod macros;
mod meter;
mod parse;
mod plan;
mod program;
mod quantity;
mod scan;
mod semver;
mod value;

pub use device::{Attribute, Device, OwnedAttribute, OwnedDevice, Strings};
pub use error::CompileError;
pub use meter::{Budget, COST_LIMIT};
pub use program::{EvalError, Program, compile};
pub use quantity::{Quantity, QuantityError};
pub use semver::{Semver, SemverError};
