//! The functions of Kubernetes' environment for device selectors.

mod compare;
mod format;
mod lists;
mod named_formats;
mod net;
mod numbers;
mod optional;
mod quantity;
mod regex;
mod semver;
mod sets;
mod standard;
mod strings;
mod table;
mod time;
mod unavailable;
mod url;

use std::sync::LazyLock;

pub(crate) use compare::{Equality, equal};
pub(crate) use format::check_format;
pub(crate) use named_formats::Format;
pub(crate) use net::{Cidr, Ip};
pub(crate) use numbers::{lossless_int, lossless_uint};
pub(crate) use regex::{Pattern, compile as compile_pattern};
pub(crate) use table::{Binding, Call, Function, Library};
pub(crate) use time::{Timestamp, parse_duration, parse_timestamp};
pub(crate) use url::Url;

/// Returns all functions, read once.
pub(crate) fn library() -> &'static Library {
    static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
        let mut library = Library::default();
        // Upstream's order: where several overloads fit, the first is taken.
        standard::declare(&mut library);
        time::declare(&mut library);
        url::declare(&mut library);
        regex::declare(&mut library);
        unavailable::declare(&mut library);
        optional::declare(&mut library);
        quantity::declare(&mut library);
        strings::declare(&mut library);
        sets::declare(&mut library);
        net::declare(&mut library);
        named_formats::declare(&mut library);
        semver::declare(&mut library);
        lists::declare(&mut library);
        library
    });
    &LIBRARY
}
