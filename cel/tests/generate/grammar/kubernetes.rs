//! Kubernetes' own types, and what the device has.

use super::Type::*;
use super::{Grammar, ORDERED, Type, list, map, optional};
use crate::generate::device::{ATTRIBUTES, CAPACITIES, DOMAINS};

impl Grammar<'_> {
    pub(super) fn presence(&mut self) -> String {
        let domain = self.domain();
        let name = self.any_name();
        match self.random.below(5) {
            0 => format!("has(device.attributes[{domain}].{name})"),
            1 => format!("{domain} in device.attributes"),
            2 => format!("\"{name}\" in device.attributes[{domain}]"),
            3 => format!("has(device.capacity[{domain}].{name})"),
            _ => format!("device.attributes[{domain}].?{name}.hasValue()"),
        }
    }

    pub(super) fn domain(&mut self) -> String {
        match self.random.below(8) {
            0 => "device.driver".to_owned(),
            _ => format!("\"{}\"", self.pick(&DOMAINS)),
        }
    }

    pub(super) fn any_name(&mut self) -> &'static str {
        match self.random.below(6) {
            0 => "missing",
            1 => CAPACITIES[self.random.below(CAPACITIES.len())],
            _ => self.pick(&ATTRIBUTES).0,
        }
    }

    /// An attribute that drivers publish as this kind, mostly.
    pub(super) fn attribute_of(&mut self, kind: &str) -> String {
        let fitting: Vec<&str> =
            ATTRIBUTES.iter().filter(|(_, known)| *known == kind).map(|(name, _)| *name).collect();
        let name = *self.pick(&fitting);
        let domain = *self.pick(&[
            "gpu.nvidia.com",
            "gpu.nvidia.com",
            "resource.kubernetes.io",
            "x.example.com",
        ]);
        format!("device.attributes[\"{domain}\"].{name}")
    }

    pub(super) fn dynamic(&mut self, depth: usize) -> String {
        if depth > 0 && self.random.chance(30) {
            let of = self.equatable();
            return format!(
                "dyn({})",
                if of == Dyn { "1".to_owned() } else { self.of(&of, depth - 1) }
            );
        }
        let (domain, name) = (self.domain(), self.any_name());
        match self.random.below(8) {
            0 => format!("device.attributes[{domain}][\"{name}\"]"),
            1 => format!("device.attributes[{domain}].?{name}.orValue(1)"),
            2 => format!(
                "dyn({})",
                self.pick(&["1", "\"a\"", "null", "2u", "1.5", "[1, 2]", "{\"a\": 1}", "device"])
            ),
            _ => {
                let kind = *self.pick(&["string", "int", "bool", "version", "strings", "ints"]);
                self.attribute_of(kind)
            }
        }
    }

    pub(super) fn quantity(&mut self, depth: usize) -> String {
        let domain = self.domain();
        if depth == 0 || self.random.chance(50) {
            if self.random.chance(60) {
                let name = *self.pick(&CAPACITIES);
                return format!("device.capacity[{domain}].{name}");
            }
            let text = *self.pick(&[
                "40Gi",
                "80Gi",
                "1",
                "0",
                "1Ki",
                "500m",
                "1e30",
                "1n",
                "-1.5M",
                "12345678901234567890",
                "1.23456789Gi",
                "9223372036854775807",
                "100E",
                "x",
                "+1",
                "1e-3",
                "0.1n",
                "8Ei",
                "1000000000000000000000Ki",
            ]);
            return format!("quantity(\"{text}\")");
        }
        let depth = depth - 1;
        let name = *self.pick(&["add", "sub"]);
        match self.random.below(4) {
            0 => format!("quantity({})", self.of(&Text, depth)),
            1 => self.method(&Quantity, name, &[Int], depth),
            _ => self.method(&Quantity, name, &[Quantity], depth),
        }
    }

    pub(super) fn semver(&mut self, depth: usize) -> String {
        match self.random.below(5) {
            0 | 1 => self.attribute_of("version"),
            2 => {
                let text = *self.pick(&["v1.2.3", "01.2", "1", "1.2.3-rc.1", "v1.0-a"]);
                format!("semver(\"{text}\", true)")
            }
            3 if depth > 0 => format!("semver({})", self.of(&Text, depth - 1)),
            _ => {
                let text =
                    *self.pick(&["550.0.0", "8.9.0", "1.0.0-alpha.1", "1.0.0+b", "x", "565.57.1"]);
                format!("semver(\"{text}\")")
            }
        }
    }

    pub(super) fn address(&mut self) -> String {
        let text = *self.pick(&[
            "10.0.0.1",
            "127.0.0.1",
            "::1",
            "fe80::1",
            "224.0.0.1",
            "2001:db8::",
            "::",
            "0.0.0.0",
            "01.2.3.4",
            "x",
            "::ffff:1.2.3.4",
            "2001:DB8::1",
            "ff02::1",
            "169.254.0.1",
            "255.255.255.255",
        ]);
        format!("\"{text}\"")
    }

    pub(super) fn network(&mut self) -> String {
        let text = *self.pick(&[
            "10.0.0.0/8",
            "10.0.0.1/32",
            "::/0",
            "fe80::/10",
            "10.1.0.0/16",
            "1.2.3.4/33",
            "2001:db8::/33",
            "0.0.0.0/0",
            "10.0.0.0/08",
        ]);
        format!("\"{text}\"")
    }

    pub(super) fn ip(&mut self, depth: usize) -> String {
        if depth > 0 && self.random.chance(30) {
            return format!("{}.ip()", self.of(&Cidr, depth - 1));
        }
        format!("ip({})", self.address())
    }

    pub(super) fn cidr(&mut self, depth: usize) -> String {
        if depth > 0 && self.random.chance(30) {
            return format!("{}.masked()", self.of(&Cidr, depth - 1));
        }
        format!("cidr({})", self.network())
    }

    pub(super) fn url(&mut self) -> String {
        let text = *self.pick(&[
            "http://10.0.0.1:80/a?b=c",
            "https://user:pw@example.com/a%20b",
            "/path/only?x=1&x=2",
            "mailto:a@b.c",
            "http://[::1]:8080/",
            "no url",
            "",
            "http://a b",
            "https://example.com",
            "http://EXAMPLE.com:80#frag",
            "*",
            "//host/path",
            "http://x/é",
        ]);
        format!("url(\"{text}\")")
    }

    pub(super) fn versioned(&mut self, depth: usize) -> String {
        let of = self.pick(&[Quantity, Semver]).clone();
        let name = *self.pick(&["isGreaterThan", "isLessThan"]);
        let (left, right) = (self.of(&of, depth), self.of(&of, depth));
        format!("{left}.{name}({right})")
    }

    pub(super) fn network_test(&mut self, depth: usize) -> String {
        match self.random.below(6) {
            0 => format!("{}.containsIP({})", self.of(&Cidr, depth), self.of(&Ip, depth)),
            1 => format!("{}.containsIP({})", self.of(&Cidr, depth), self.address()),
            2 => format!("{}.containsCIDR({})", self.of(&Cidr, depth), self.of(&Cidr, depth)),
            3 => format!("{}.containsCIDR({})", self.of(&Cidr, depth), self.network()),
            4 => format!("ip.isCanonical({})", self.address()),
            _ => {
                let name = *self.pick(&[
                    "isUnspecified",
                    "isLoopback",
                    "isLinkLocalMulticast",
                    "isLinkLocalUnicast",
                    "isGlobalUnicast",
                ]);
                format!("{}.{name}()", self.of(&Ip, depth))
            }
        }
    }
}
