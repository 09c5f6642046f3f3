//! Lists, maps and optionals.

use super::Type::*;
use super::{Grammar, ORDERED, Type, list, map, optional};
use crate::generate::device::{ATTRIBUTES, CAPACITIES, DOMAINS};

impl Grammar<'_> {
    pub(super) fn list(&mut self, of: &Type, depth: usize) -> String {
        if depth == 0 {
            return self.list_leaf(of);
        }
        let depth = depth - 1;
        let whole = list(of.clone());
        match self.random.below(18) {
            0..=4 => {
                let count = self.random.below(4);
                self.literal_list(of, count, depth)
            }
            5 => self.two(&whole, &whole, depth, " + "),
            6 => self.method(&whole, "distinct", &[], depth),
            7 => self.method(&whole, "reverse", &[], depth),
            8 => self.method(&whole, "slice", &[Int, Int], depth),
            9 if ORDERED.contains(of) => self.method(&whole, "sort", &[], depth),
            10 => self.method(&list(whole.clone()), "flatten", &[], depth),
            11 => {
                let range = self.of(&whole, depth);
                let (names, body) =
                    self.with(std::slice::from_ref(of), |inner| inner.of(&Bool, depth));
                format!("{range}.filter({}, {body})", names[0])
            }
            12 => {
                let from = self.simple();
                let range = self.of(&list(from.clone()), depth);
                let (names, body) = self.with(&[from], |inner| inner.of(of, depth));
                format!("{range}.map({}, {body})", names[0])
            }
            13 => {
                let (range, key, value) = self.range(depth);
                let filter = self.random.chance(40);
                let (names, body) = self.with(&[key, value], |inner| {
                    let filter = if filter { inner.of(&Bool, depth) + ", " } else { String::new() };
                    filter + &inner.of(of, depth)
                });
                format!("{range}.transformList({}, {}, {body})", names[0], names[1])
            }
            14 if *of == Text => self.method(&Text, "split", &[Text], depth),
            15 if *of == Text => {
                let pattern = self.pattern();
                let count = *self.pick(&["", ", 2", ", 0", ", -1"]);
                format!("{}.findAll({pattern}{count})", self.of(&Text, depth))
            }
            16 if *of == Int => format!("lists.range({})", self.pick(&["0", "3", "5", "-1"])),
            17 => {
                let range = self.of(&whole, depth);
                let key = self.pick(&[Int, Text]).clone();
                let (names, body) =
                    self.with(std::slice::from_ref(of), |inner| inner.of(&key, depth));
                format!("{range}.sortBy({}, {body})", names[0])
            }
            _ => {
                let count = self.random.below(4);
                self.literal_list(of, count, depth)
            }
        }
    }

    pub(super) fn list_leaf(&mut self, of: &Type) -> String {
        let kind = match of {
            Text => Some("strings"),
            Int => Some("ints"),
            Bool => Some("bools"),
            Semver => Some("versions"),
            _ => None,
        };
        if let Some(kind) = kind
            && self.random.chance(50)
        {
            return self.attribute_of(kind);
        }
        let count = self.random.below(3);
        self.literal_list(of, count, 0)
    }

    pub(super) fn literal_list(&mut self, of: &Type, count: usize, depth: usize) -> String {
        let mut elements = Vec::new();
        for _ in 0..count {
            if self.random.chance(6) {
                elements.push(format!("?{}", self.of(&optional(of.clone()), depth.min(1))));
            } else {
                elements.push(self.of(of, depth.min(1)));
            }
        }
        format!("[{}]", elements.join(", "))
    }

    pub(super) fn map(&mut self, of: &Type, depth: usize) -> String {
        if matches!(of, Dyn) && self.random.chance(40) {
            return format!("device.attributes[{}]", self.domain());
        }
        if matches!(of, Quantity) {
            return format!("device.capacity[{}]", self.domain());
        }
        if depth > 0 && self.random.chance(25) {
            let depth = depth - 1;
            let (range, key, value) = self.range(depth);
            let (names, body) = self.with(&[key.clone(), value], |inner| inner.of(of, depth));
            if key == Text {
                return format!("{range}.transformMap({}, {}, {body})", names[0], names[1]);
            }
            return format!(
                "{range}.transformMapEntry({}, {}, {{string({}): {body}}})",
                names[0], names[1], names[0]
            );
        }
        if matches!(of, List(inner) if **inner == Text) && self.random.chance(30) {
            return format!("{}.getQuery()", self.url());
        }
        let count = self.random.below(3);
        let mut entries = Vec::new();
        for index in 0..count {
            let key = match self.random.below(4) {
                0 if depth > 0 => self.of(&Text, 0),
                _ => format!("\"{}\"", ["a", "b", "k1"][index % 3]),
            };
            match self.random.chance(8) {
                true => entries
                    .push(format!("?{key}: {}", self.of(&optional(of.clone()), depth.min(1)))),
                false => entries.push(format!("{key}: {}", self.of(of, depth.min(1)))),
            }
        }
        format!("{{{}}}", entries.join(", "))
    }

    pub(super) fn optional(&mut self, of: &Type, depth: usize) -> String {
        if depth == 0 {
            return match self.random.below(3) {
                0 => "optional.none()".to_owned(),
                _ => format!("optional.of({})", self.of(of, 0)),
            };
        }
        let depth = depth - 1;
        let whole = optional(of.clone());
        match self.random.below(12) {
            0 => "optional.none()".to_owned(),
            1 | 2 => format!("optional.of({})", self.of(of, depth)),
            3 => format!("optional.ofNonZeroValue({})", self.of(of, depth)),
            4 => format!("{}.or({})", self.of(&whole, depth), self.of(&whole, depth)),
            5 => {
                let from = self.simple();
                let value = self.of(&optional(from.clone()), depth);
                let (names, body) = self.with(&[from], |inner| inner.of(of, depth));
                format!("{value}.optMap({}, {body})", names[0])
            }
            6 => {
                let from = self.simple();
                let value = self.of(&optional(from.clone()), depth);
                let (names, body) = self.with(&[from], |inner| inner.of(&whole, depth));
                format!("{value}.optFlatMap({}, {body})", names[0])
            }
            7 => {
                let name = *self.pick(&["first", "last"]);
                self.method(&list(of.clone()), name, &[], depth)
            }
            8 => {
                let (list, index) = (self.of(&list(of.clone()), depth), self.of(&Int, 0));
                format!("{list}[?{index}]")
            }
            9 => {
                let (map, key) = (self.of(&map(of.clone()), depth), *self.pick(&["a", "b", "k1"]));
                format!("{map}.?{key}")
            }
            10 => {
                let (domain, name) = (self.domain(), self.any_name());
                format!("device.attributes[{domain}].?{name}")
            }
            _ => {
                let (domain, name) = (self.domain(), self.any_name());
                format!("device.attributes[?{domain}].{name}")
            }
        }
    }
}
