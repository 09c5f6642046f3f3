//! The binary `berth`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    berth::cli::main()
}
