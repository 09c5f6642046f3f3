//! Expressions by type.

mod containers;
mod kubernetes;
mod values;

use super::Random;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Type {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Quantity,
    Semver,
    Ip,
    Cidr,
    Url,
    List(Box<Type>),
    Map(Box<Type>),
    Optional(Box<Type>),
    Dyn,
}

use Type::{
    Bool, Bytes, Cidr, Double, Duration, Dyn, Int, Ip, List, Map, Optional, Quantity, Semver, Text,
    Timestamp, Uint, Url,
};

const SIMPLE: [Type; 8] = [Int, Int, Text, Text, Bool, Double, Uint, Dyn];
const ORDERED: [Type; 8] = [Int, Int, Text, Text, Uint, Double, Duration, Timestamp];

const FORMATS: [&str; 11] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
    "dns1123LabelPrefix",
];

const TYPES: [&str; 8] =
    ["int", "string", "bool", "double", "list", "map", "type", "optional_type"];

pub struct Grammar<'r> {
    random: &'r mut Random,
    variables: Vec<(String, Type)>,
    next: usize,
}

fn list(of: Type) -> Type {
    List(Box::new(of))
}

fn map(of: Type) -> Type {
    Map(Box::new(of))
}

fn optional(of: Type) -> Type {
    Optional(Box::new(of))
}

impl<'r> Grammar<'r> {
    pub fn new(random: &'r mut Random) -> Self {
        Self { random, variables: Vec::new(), next: 0 }
    }

    /// Returns a bool, or what the checker can't tell apart from one.
    pub fn selector(&mut self, depth: usize) -> String {
        if self.random.chance(4) {
            return self.dynamic(depth);
        }
        self.of(&Bool, depth)
    }

    fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        self.random.pick(of)
    }

    fn simple(&mut self) -> Type {
        self.pick(&SIMPLE).clone()
    }

    fn of(&mut self, wanted: &Type, depth: usize) -> String {
        let known: Vec<String> = self
            .variables
            .iter()
            .filter(|(_, of)| of == wanted)
            .map(|(name, _)| name.clone())
            .collect();
        if !known.is_empty() && self.random.chance(40) {
            return self.pick(&known).clone();
        }
        if depth > 0 && self.random.chance(12) {
            return self.any_type(wanted, depth - 1);
        }
        if self.random.chance(5) && !matches!(wanted, Bool) {
            return self.dynamic(depth.saturating_sub(1));
        }
        match wanted {
            Bool => self.boolean(depth),
            Int => self.int(depth),
            Uint => self.uint(depth),
            Double => self.double(depth),
            Text => self.text(depth),
            Bytes => self.bytes(depth),
            Duration => self.duration(depth),
            Timestamp => self.timestamp(depth),
            Quantity => self.quantity(depth),
            Semver => self.semver(depth),
            Ip => self.ip(depth),
            Cidr => self.cidr(depth),
            Url => self.url(),
            List(of) => self.list(of, depth),
            Map(of) => self.map(of, depth),
            Optional(of) => self.optional(of, depth),
            Dyn => self.dynamic(depth),
        }
    }

    /// What gives a value of any type.
    fn any_type(&mut self, wanted: &Type, depth: usize) -> String {
        match self.random.below(8) {
            0 => {
                let (condition, yes, no) =
                    (self.of(&Bool, depth), self.of(wanted, depth), self.of(wanted, depth));
                format!("({condition} ? {yes} : {no})")
            }
            1 => {
                let of = self.simple();
                self.bind(&of, wanted, depth)
            }
            2 => {
                let (value, other) =
                    (self.of(&optional(wanted.clone()), depth), self.of(wanted, depth));
                format!("{value}.orValue({other})")
            }
            3 => format!("{}.value()", self.of(&optional(wanted.clone()), depth)),
            4 => {
                let (list, index) = (self.of(&list(wanted.clone()), depth), self.of(&Int, depth));
                format!("{list}[{index}]")
            }
            5 => {
                let (map, key) = (self.of(&map(wanted.clone()), depth), self.of(&Text, depth));
                format!("{map}[{key}]")
            }
            6 => {
                let (map, key) =
                    (self.of(&map(wanted.clone()), depth), *self.pick(&["a", "b", "k1"]));
                format!("{map}.{key}")
            }
            _ => {
                let kinds = [list(Int), list(Text), list(Double)];
                let kind = self.pick(&kinds).clone();
                if let List(of) = &kind
                    && of.as_ref() == wanted
                {
                    let function = *self.pick(&["min", "max"]);
                    return format!("{}.{function}()", self.of(&kind, depth));
                }
                format!("dyn({})", self.of(wanted, depth))
            }
        }
    }

    fn bind(&mut self, of: &Type, wanted: &Type, depth: usize) -> String {
        let name = self.fresh();
        let init = self.of(of, depth);
        self.variables.push((name.clone(), of.clone()));
        let body = self.of(wanted, depth);
        self.variables.pop();
        format!("cel.bind({name}, {init}, {body})")
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        // Names that come again shadow each other.
        let names = ["x", "y", "k", "v", "e"];
        names[(self.next + self.random.below(2)) % names.len()].to_owned()
    }

    /// Runs `body` with variables of these types, and returns their names beside its text.
    fn with(
        &mut self,
        types: &[Type],
        body: impl FnOnce(&mut Self) -> String,
    ) -> (Vec<String>, String) {
        let mut names: Vec<String> = Vec::new();
        for of in types {
            let mut name = self.fresh();
            while names.contains(&name) {
                name = self.fresh();
            }
            self.variables.push((name.clone(), of.clone()));
            names.push(name);
        }
        let text = body(self);
        self.variables.truncate(self.variables.len() - types.len());
        (names, text)
    }

    fn boolean(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.random.below(4) {
                0 => (*self.pick(&["true", "false"])).to_owned(),
                1 => "device.allowMultipleAllocations".to_owned(),
                2 => self.attribute_of("bool"),
                _ => self.presence(),
            };
        }
        match self.random.below(30) {
            0..=15 => self.logic(depth - 1),
            _ => self.question(depth - 1),
        }
    }

    /// Logic, comparison and membership.
    fn logic(&mut self, depth: usize) -> String {
        match self.random.below(16) {
            0..=2 => self.two(&Bool, &Bool, depth, " && "),
            3..=5 => self.two(&Bool, &Bool, depth, " || "),
            6 => format!("!({})", self.of(&Bool, depth)),
            7..=10 => {
                let of = self.equatable();
                let operator = *self.pick(&[" == ", " == ", " != "]);
                self.two(&of, &of, depth, operator)
            }
            11..=13 => {
                let (left, right) = self.comparable();
                let operator = *self.pick(&[" < ", " <= ", " > ", " >= "]);
                self.two(&left, &right, depth, operator)
            }
            14 => {
                let of = self.simple();
                self.two(&of, &list(of.clone()), depth, " in ")
            }
            _ => {
                let of = self.simple();
                self.two(&Text, &map(of), depth, " in ")
            }
        }
    }

    /// Functions that answer.
    fn question(&mut self, depth: usize) -> String {
        match 16 + self.random.below(14) {
            16..=18 => self.quantifier(depth),
            19 => self.text_test(depth),
            20 => self.versioned(depth),
            21 => self.presence(),
            22 => {
                let of = self.simple();
                format!("{}.hasValue()", self.of(&optional(of), depth))
            }
            23 => {
                let of = self.pick(&[Int, Text]).clone();
                let name = *self.pick(&["contains", "equivalent", "intersects"]);
                let (left, right) = (self.of(&list(of.clone()), depth), self.of(&list(of), depth));
                format!("sets.{name}({left}, {right})")
            }
            24 => {
                let (value, wanted) = (self.dynamic(depth), self.simple());
                let wanted = self.of(&wanted, depth);
                format!("{value}.includes({wanted})")
            }
            25 => self.network_test(depth),
            26 => {
                let of = self.pick(&ORDERED).clone();
                format!("{}.isSorted()", self.of(&list(of), depth))
            }
            27 => {
                let name = *self.pick(&["isQuantity", "isSemver", "isIP", "isCIDR", "isURL"]);
                format!("{name}({})", self.of(&Text, depth))
            }
            28 => {
                let of = self.simple();
                let name = *self.pick(&TYPES);
                format!("type({}) == {name}", self.of(&of, depth))
            }
            _ => {
                let name = *self.pick(&FORMATS);
                format!("format.{name}().validate({}).hasValue()", self.of(&Text, depth))
            }
        }
    }

    fn two(&mut self, left: &Type, right: &Type, depth: usize, operator: &str) -> String {
        let (left, right) = (self.of(left, depth), self.of(right, depth));
        format!("({left}{operator}{right})")
    }

    fn equatable(&mut self) -> Type {
        let of = [
            Int,
            Int,
            Text,
            Text,
            Text,
            Bool,
            Double,
            Uint,
            Bytes,
            Duration,
            Timestamp,
            Quantity,
            Semver,
            Ip,
            Cidr,
            Url,
            list(Int),
            list(Text),
            map(Int),
            optional(Int),
            optional(Text),
            Dyn,
            Dyn,
            list(Dyn),
            list(list(Int)),
            map(Text),
        ];
        self.pick(&of).clone()
    }

    fn comparable(&mut self) -> (Type, Type) {
        let numbers = [Int, Uint, Double, Dyn];
        if self.random.chance(30) {
            return (self.pick(&numbers).clone(), self.pick(&numbers).clone());
        }
        let of = self.pick(&[Int, Text, Bool, Bytes, Duration, Timestamp, Double, Uint]).clone();
        (of.clone(), of)
    }

    fn quantifier(&mut self, depth: usize) -> String {
        let name = *self.pick(&["all", "exists", "exists_one", "existsOne"]);
        let (range, key, value) = self.range(depth);
        if self.random.chance(35) {
            let (names, body) = self.with(&[key, value], |inner| inner.of(&Bool, depth));
            return format!("{range}.{name}({}, {}, {body})", names[0], names[1]);
        }
        let of = if key == Int { value } else { key };
        let (names, body) = self.with(&[of], |inner| inner.of(&Bool, depth));
        format!("{range}.{name}({}, {body})", names[0])
    }

    /// Something to iterate, with the types of both variables.
    fn range(&mut self, depth: usize) -> (String, Type, Type) {
        match self.random.below(6) {
            0 => {
                let domain = self.domain();
                (format!("device.attributes[{domain}]"), Text, Dyn)
            }
            1 => {
                let domain = self.domain();
                (format!("device.capacity[{domain}]"), Text, Quantity)
            }
            2 => ("device.attributes".to_owned(), Text, map(Dyn)),
            3 => {
                let of = self.simple();
                (self.of(&map(of.clone()), depth), Text, of)
            }
            _ => {
                let of = self.simple();
                (self.of(&list(of.clone()), depth), Int, of)
            }
        }
    }

    fn method(&mut self, target: &Type, name: &str, args: &[Type], depth: usize) -> String {
        let target = self.of(target, depth);
        let args: Vec<String> = args.iter().map(|of| self.of(of, depth)).collect();
        format!("{target}.{name}({})", args.join(", "))
    }
}
