//! IP addresses and networks, as Go's `netip` has them; addresses of IPv4 inside of IPv6 are
//! refused.

use std::net::{IpAddr, Ipv6Addr};

use super::table::{Binding, Library};
use crate::meter::{Eval, Stop};
use crate::value::Value;

type Args<'v, 'a> = &'v [Value<'a>];

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ip(IpAddr);

/// A network: an address, which need not be its first, and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cidr {
    address: Ip,
    bits: u32,
}

impl Ip {
    fn parse(text: &str) -> Eval<Self> {
        match text.parse() {
            Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
                Err(Stop::error(format!("IPv4-mapped IPv6 address \"{text}\" is not allowed")))
            }
            Ok(address) => Ok(Self(address)),
            Err(_) => Err(Stop::error(format!("\"{text}\" is no IP address"))),
        }
    }

    /// In bytes.
    pub(crate) fn size(&self) -> usize {
        if self.0.is_ipv4() { 4 } else { 16 }
    }

    /// Returns the bits, those of IPv4 at the end.
    fn number(&self) -> u128 {
        match self.0 {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    fn width(&self) -> u32 {
        if self.0.is_ipv4() { 32 } else { 128 }
    }

    /// Returns the first bits as a number.
    fn prefix(&self, bits: u32) -> u128 {
        self.number().checked_shr(self.width().saturating_sub(bits)).unwrap_or(0)
    }

    fn is_link_local_unicast(&self) -> bool {
        match self.0 {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
        }
    }

    fn is_link_local_multicast(&self) -> bool {
        match self.0 {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        }
    }

    fn is_global_unicast(&self) -> bool {
        let broadcast = matches!(self.0, IpAddr::V4(address) if address.is_broadcast());
        let local = self.0.is_unspecified() || self.0.is_loopback() || self.0.is_multicast();
        !broadcast && !local && !self.is_link_local_unicast()
    }
}

impl std::fmt::Display for Ip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Cidr {
    fn parse(text: &str) -> Eval<Self> {
        let wrong = || Stop::error(format!("\"{text}\" is no network: write it like 10.0.0.0/8"));
        let (address, bits) = text.rsplit_once('/').ok_or_else(wrong)?;
        let address = Ip::parse(address)?;
        let plain = bits.bytes().all(|byte| byte.is_ascii_digit());
        let padded = bits.len() > 1 && bits.starts_with('0');
        let bits = bits.parse().map_err(|_| wrong())?;
        if !plain || padded || bits > address.width() {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }

    /// In bytes.
    pub(crate) fn size(&self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    fn contains(&self, ip: &Ip) -> bool {
        self.address.width() == ip.width() && self.address.prefix(self.bits) == ip.prefix(self.bits)
    }

    fn contains_network(&self, other: &Self) -> bool {
        self.bits <= other.bits && self.contains(&other.address)
    }

    fn masked(&self) -> Self {
        let host_bits = self.address.width() - self.bits;
        let kept = u128::MAX.checked_shl(host_bits).unwrap_or(0);
        let number = self.address.number() & kept;
        let address = match self.address.0 {
            IpAddr::V4(_) => IpAddr::V4(u32::try_from(number).unwrap_or_default().into()),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(number)),
        };
        Self { address: Ip(address), bits: self.bits }
    }
}

/// Shows a network.
pub(super) fn show(cidr: &Cidr) -> String {
    format!("{}/{}", cidr.address, cidr.bits)
}

pub(super) fn declare(library: &mut Library) {
    addresses(library);
    networks(library);
}

fn addresses(library: &mut Library) {
    let fixed = Binding::Fixed;
    let parse = fixed(|_, args| Ip::parse(the_text(args)?).map(Value::Ip));
    library.global("ip", "string_to_ip", "string: ip", parse);
    let is = fixed(|_, args| Ok(Value::Bool(Ip::parse(the_text(args)?).is_ok())));
    library.global("isIP", "is_ip", "string: bool", is);
    let canonical = fixed(|_, args| {
        let text = the_text(args)?;
        Ok(Value::Bool(Ip::parse(text)?.to_string() == text))
    });
    library.global("ip.isCanonical", "ip_is_canonical", "string: bool", canonical);
    let family =
        fixed(|_, args| the_ip(args).map(|ip| Value::Int(if ip.0.is_ipv4() { 4 } else { 6 })));
    library.member("family", "ip_family", "ip: int", family);
    let tests: [(&str, super::Call); 5] = [
        ("isUnspecified", |_, args| the_ip(args).map(|ip| Value::Bool(ip.0.is_unspecified()))),
        ("isLoopback", |_, args| the_ip(args).map(|ip| Value::Bool(ip.0.is_loopback()))),
        ("isLinkLocalMulticast", |_, args| {
            the_ip(args).map(|ip| Value::Bool(ip.is_link_local_multicast()))
        }),
        ("isLinkLocalUnicast", |_, args| {
            the_ip(args).map(|ip| Value::Bool(ip.is_link_local_unicast()))
        }),
        ("isGlobalUnicast", |_, args| the_ip(args).map(|ip| Value::Bool(ip.is_global_unicast()))),
    ];
    for (name, call) in tests {
        library.member(name, name, "ip: bool", fixed(call));
    }
}

fn networks(library: &mut Library) {
    let fixed = Binding::Fixed;
    let parse = fixed(|_, args| Cidr::parse(the_text(args)?).map(Value::Cidr));
    library.global("cidr", "string_to_cidr", "string: cidr", parse);
    let is = fixed(|_, args| Ok(Value::Bool(Cidr::parse(the_text(args)?).is_ok())));
    library.global("isCIDR", "is_cidr", "string: bool", is);
    let contains_ip = fixed(|_, args| match args {
        [Value::Cidr(cidr), Value::Ip(ip)] => Ok(Value::Bool(cidr.contains(ip))),
        [Value::Cidr(cidr), Value::Text(ip)] => Ok(Value::Bool(cidr.contains(&Ip::parse(ip)?))),
        _ => Err(Stop::no_overload()),
    });
    library.member("containsIP", "cidr_contains_ip_string", "cidr, string: bool", contains_ip);
    library.member("containsIP", "cidr_contains_ip_ip", "cidr, ip: bool", contains_ip);
    let contains = fixed(|_, args| match args {
        [Value::Cidr(cidr), Value::Cidr(other)] => Ok(Value::Bool(cidr.contains_network(other))),
        [Value::Cidr(cidr), Value::Text(other)] => {
            Ok(Value::Bool(cidr.contains_network(&Cidr::parse(other)?)))
        }
        _ => Err(Stop::no_overload()),
    });
    library.member("containsCIDR", "cidr_contains_cidr_string", "cidr, string: bool", contains);
    library.member("containsCIDR", "cidr_contains_cidr", "cidr, cidr: bool", contains);
    let address = fixed(|_, args| the_cidr(args).map(|cidr| Value::Ip(cidr.address)));
    library.member("ip", "cidr_ip", "cidr: ip", address);
    let length = fixed(|_, args| the_cidr(args).map(|cidr| Value::Int(i64::from(cidr.bits))));
    library.member("prefixLength", "cidr_prefix_length", "cidr: int", length);
    let masked = fixed(|_, args| the_cidr(args).map(|cidr| Value::Cidr(cidr.masked())));
    library.member("masked", "cidr_masked", "cidr: cidr", masked);
}

fn the_text<'v>(args: Args<'v, '_>) -> Eval<&'v str> {
    match args {
        [Value::Text(text)] => Ok(text),
        _ => Err(Stop::no_overload()),
    }
}

fn the_ip<'v>(args: Args<'v, '_>) -> Eval<&'v Ip> {
    match args {
        [Value::Ip(ip)] => Ok(ip),
        _ => Err(Stop::no_overload()),
    }
}

fn the_cidr<'v>(args: Args<'v, '_>) -> Eval<&'v Cidr> {
    match args {
        [Value::Cidr(cidr)] => Ok(cidr),
        _ => Err(Stop::no_overload()),
    }
}
