//! Numbers, texts and times.

use super::Type::*;
use super::{Grammar, ORDERED, Type, list, map, optional};
use crate::generate::device::{ATTRIBUTES, CAPACITIES, DOMAINS};

impl Grammar<'_> {
    pub(super) fn int(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.random.below(3) {
                0 => self.attribute_of("int"),
                _ => (*self.pick(&[
                    "0",
                    "1",
                    "2",
                    "3",
                    "-1",
                    "7",
                    "9223372036854775807",
                    "-9223372036854775808",
                    "0x10",
                ]))
                .to_owned(),
            };
        }
        match self.random.below(20) {
            0..=9 => self.arithmetic(depth - 1),
            _ => self.measure(depth - 1),
        }
    }

    pub(super) fn arithmetic(&mut self, depth: usize) -> String {
        match self.random.below(10) {
            0..=4 => {
                let operator = *self.pick(&[" + ", " - ", " * ", " / ", " % "]);
                self.two(&Int, &Int, depth, operator)
            }
            5 => format!("-({})", self.of(&Int, depth)),
            6..=8 => {
                let kinds = [Text, Bytes, list(Int), list(Text), map(Int), map(Dyn)];
                let of = self.pick(&kinds).clone();
                let value = self.of(&of, depth);
                if self.random.chance(50) {
                    format!("size({value})")
                } else {
                    format!("{value}.size()")
                }
            }
            _ => {
                let of = self.pick(&[Double, Uint, Text, Duration, Timestamp, Int]).clone();
                format!("int({})", self.of(&of, depth))
            }
        }
    }

    /// Functions that count or compare.
    pub(super) fn measure(&mut self, depth: usize) -> String {
        match 10 + self.random.below(10) {
            10 => {
                let of = self.pick(&[Quantity, Semver]).clone();
                self.method(&of.clone(), "compareTo", &[of], depth)
            }
            11 => {
                let name = *self.pick(&["indexOf", "lastIndexOf"]);
                match self.random.below(3) {
                    0 => self.method(&Text, name, &[Text], depth),
                    1 => self.method(&Text, name, &[Text, Int], depth),
                    _ => self.method(&list(Int), name, &[Int], depth),
                }
            }
            12 => {
                let name = *self.pick(&["sum", "min", "max"]);
                self.method(&list(Int), name, &[], depth)
            }
            13 => {
                let name = *self.pick(&["major", "minor", "patch"]);
                self.method(&Semver, name, &[], depth)
            }
            14 => self.method(&Quantity, "asInteger", &[], depth),
            15 => format!("sign({})", self.of(&Quantity, depth)),
            16 => {
                let name = *self.pick(&[
                    "getFullYear",
                    "getMonth",
                    "getDayOfYear",
                    "getDate",
                    "getDayOfMonth",
                    "getDayOfWeek",
                    "getHours",
                    "getMinutes",
                    "getSeconds",
                    "getMilliseconds",
                ]);
                let zone = *self.pick(&["", "", "\"UTC\"", "\"+05:30\"", "\"-08:00\""]);
                format!("{}.{name}({zone})", self.of(&Timestamp, depth))
            }
            17 => {
                let name = *self.pick(&["getHours", "getMinutes", "getSeconds", "getMilliseconds"]);
                self.method(&Duration, name, &[], depth)
            }
            18 => {
                let of = self.pick(&[Ip, Cidr]).clone();
                let name = if of == Ip { "family" } else { "prefixLength" };
                self.method(&of, name, &[], depth)
            }
            _ => self.attribute_of("int"),
        }
    }

    pub(super) fn uint(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.chance(40) {
            return (*self.pick(&["0u", "1u", "2u", "18446744073709551615u"])).to_owned();
        }
        let depth = depth - 1;
        match self.random.below(4) {
            0 => {
                let of = self.pick(&[Int, Double, Text]).clone();
                format!("uint({})", self.of(&of, depth))
            }
            1 => self.method(&list(Uint), "sum", &[], depth),
            _ => {
                let operator = *self.pick(&[" + ", " - ", " * ", " / ", " % "]);
                self.two(&Uint, &Uint, depth, operator)
            }
        }
    }

    pub(super) fn double(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.chance(30) {
            return (*self.pick(&[
                "0.0",
                "1.5",
                "2.5",
                "-0.5",
                "1e10",
                "1e-7",
                "1e300",
                "double(\"NaN\")",
                "double(\"Inf\")",
                "3.0",
            ]))
            .to_owned();
        }
        let depth = depth - 1;
        match self.random.below(5) {
            0 => {
                let of = self.pick(&[Int, Uint, Text]).clone();
                format!("double({})", self.of(&of, depth))
            }
            1 => self.method(&Quantity, "asApproximateFloat", &[], depth),
            2 => self.method(&list(Double), "sum", &[], depth),
            _ => {
                let operator = *self.pick(&[" + ", " - ", " * ", " / "]);
                self.two(&Double, &Double, depth, operator)
            }
        }
    }

    pub(super) fn text(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.text_leaf();
        }
        let depth = depth - 1;
        match self.random.below(22) {
            0 | 1 => self.two(&Text, &Text, depth, " + "),
            2 => {
                let of = self
                    .pick(&[Int, Double, Bool, Uint, Duration, Timestamp, Bytes, Text, Ip, Cidr])
                    .clone();
                format!("string({})", self.of(&of, depth))
            }
            3 | 4 => {
                let name = *self.pick(&["lowerAscii", "upperAscii", "trim"]);
                self.method(&Text, name, &[], depth)
            }
            5 => self.method(&Text, "charAt", &[Int], depth),
            6 => self.method(&Text, "substring", &[Int], depth),
            7 => self.method(&Text, "substring", &[Int, Int], depth),
            8 => self.method(&Text, "replace", &[Text, Text], depth),
            9 => self.method(&Text, "replace", &[Text, Text, Int], depth),
            10 => self.method(&list(Text), "join", &[Text], depth),
            11 => self.method(&list(Text), "join", &[], depth),
            12 => format!("strings.quote({})", self.of(&Text, depth)),
            13 | 14 => self.formatted(depth),
            15 => {
                let pattern = self.pattern();
                format!("{}.find({pattern})", self.of(&Text, depth))
            }
            16 => {
                let name = *self.pick(&[
                    "getScheme",
                    "getHost",
                    "getHostname",
                    "getPort",
                    "getEscapedPath",
                ]);
                self.method(&Url, name, &[], depth)
            }
            17 => self.method(&list(Text), "max", &[], depth),
            _ => self.attribute_of("string"),
        }
    }

    pub(super) fn text_leaf(&mut self) -> String {
        match self.random.below(5) {
            0 => "device.driver".to_owned(),
            1 | 2 => self.attribute_of("string"),
            _ => (*self.pick(&[
                "\"\"",
                "\"a\"",
                "\"gpu\"",
                "'Hopper'",
                "\"gpu.nvidia.com\"",
                "\"NVIDIA H100 80GB HBM3\"",
                "\"é✌\"",
                "\"1.2.3\"",
                "\"40Gi\"",
                "\"12\"",
                "r\"\\d\"",
                "\"a,b,c\"",
                "\"\\n\\t\\x41\"",
                "\"1h\"",
                "\"true\"",
                "\"  pad \"",
                "\"Mixed Case\"",
                "\"aaa\"",
                "\"%\"",
            ]))
            .to_owned(),
        }
    }

    pub(super) fn formatted(&mut self, depth: usize) -> String {
        let verbs = ["%s", "%d", "%f", "%.2f", "%e", "%x", "%X", "%o", "%b", "%%", "%q", "%.1f"];
        let count = 1 + self.random.below(2);
        let mut template = String::new();
        let mut args = Vec::new();
        for _ in 0..count {
            let verb = *self.pick(&verbs);
            template += verb;
            template += "-";
            if verb == "%%" {
                continue;
            }
            let fitting: &[Type] = match verb {
                "%d" | "%o" | "%x" | "%b" => &[Int, Uint, Dyn, Bool],
                "%f" | "%.2f" | "%e" | "%.1f" => &[Double, Dyn],
                _ => &[Text, Int, Bool, Double, Dyn, Duration, Timestamp],
            };
            let of = if self.random.chance(15) {
                let kinds = [list(Int), list(Text), map(Int), Quantity, list(Double)];
                self.pick(&kinds).clone()
            } else {
                self.pick(fitting).clone()
            };
            args.push(self.of(&of, depth));
        }
        format!("\"{template}\".format([{}])", args.join(", "))
    }

    pub(super) fn bytes(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.chance(40) {
            return (*self.pick(&["b\"\"", "b\"a\"", "b\"\\xff\"", "b'abc'"])).to_owned();
        }
        match self.random.below(2) {
            0 => format!("bytes({})", self.of(&Text, depth - 1)),
            _ => self.two(&Bytes, &Bytes, depth - 1, " + "),
        }
    }

    pub(super) fn duration(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.chance(40) {
            let text = *self.pick(&[
                "1h",
                "90m",
                "1.5s",
                "-2h30m",
                "0",
                "100ms",
                "1us",
                "1h1m1s1ns",
                "2540400h",
            ]);
            return format!("duration(\"{text}\")");
        }
        let depth = depth - 1;
        match self.random.below(5) {
            0 => self.two(&Duration, &Duration, depth, " + "),
            1 => self.two(&Duration, &Duration, depth, " - "),
            2 => self.two(&Timestamp, &Timestamp, depth, " - "),
            3 => self.method(&list(Duration), "sum", &[], depth),
            _ => format!("duration({})", self.of(&Text, depth)),
        }
    }

    pub(super) fn timestamp(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.chance(40) {
            let text = *self.pick(&[
                "2024-02-29T12:00:00Z",
                "1970-01-01T00:00:00Z",
                "2023-12-31T23:59:59.123+05:30",
                "0001-01-01T00:00:00Z",
                "9999-12-31T23:59:59.999999999Z",
                "2000-03-01T01:02:03-08:00",
            ]);
            return format!("timestamp(\"{text}\")");
        }
        let depth = depth - 1;
        match self.random.below(5) {
            0 => self.two(&Timestamp, &Duration, depth, " + "),
            1 => self.two(&Duration, &Timestamp, depth, " + "),
            2 => self.two(&Timestamp, &Duration, depth, " - "),
            3 => format!("timestamp({})", self.of(&Int, depth)),
            _ => format!("timestamp({})", self.of(&Text, depth)),
        }
    }

    pub(super) fn text_test(&mut self, depth: usize) -> String {
        let text = self.of(&Text, depth);
        match self.random.below(5) {
            0 => format!("{text}.startsWith({})", self.of(&Text, depth)),
            1 => format!("{text}.endsWith({})", self.of(&Text, depth)),
            2 => format!("{text}.contains({})", self.of(&Text, depth)),
            3 => format!("matches({text}, {})", self.pattern()),
            _ => format!("{text}.matches({})", self.pattern()),
        }
    }

    pub(super) fn pattern(&mut self) -> String {
        let patterns = [
            "^.*h100.*$",
            "[0-9]+GB",
            "(?i)nvidia",
            "\\\\d+",
            "\\\\w+\\\\s",
            "a|b",
            "",
            "^$",
            "[^a-z]+",
            "x{2,3}?",
            "(a*)+",
            "\\\\bH",
            "[[:alpha:]]+",
            ".",
            "é",
            "\\\\p{Lu}",
            "[\\\\w-]+",
            "(?P<n>a)(b)?",
            "\\\\.",
            "$",
            "a**",
            "(",
            "[a",
            "(?=a)",
            "x{1001}",
            "\\\\Qa.b\\\\E",
            "[]a]",
            "[a&&b]",
            "\\\\S+$",
            "(?s).+",
        ];
        format!("\"{}\"", self.pick(&patterns))
    }
}
