//! Types of expressions, and what is assignable to what.

use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    /// The type of a type's name, or `type` itself.
    Meta(Option<Arc<Type>>),
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Optional(Arc<Type>),
    /// Values with functions but without parts, by their name.
    Opaque(&'static str),
    /// Not known yet.
    Var(usize),
    /// A parameter of a signature.
    Param(char),
}

pub(crate) const DEVICE: &str = "kubernetes.DRADevice";
pub(crate) const QUANTITY: &str = "kubernetes.Quantity";
pub(crate) const SEMVER: &str = "kubernetes.Semver";
pub(crate) const URL: &str = "kubernetes.URL";
pub(crate) const FORMAT: &str = "kubernetes.NamedFormat";
pub(crate) const IP: &str = "net.IP";
pub(crate) const CIDR: &str = "net.CIDR";
pub(crate) const TIMESTAMP: &str = "google.protobuf.Timestamp";
pub(crate) const DURATION: &str = "google.protobuf.Duration";

impl Type {
    pub(crate) fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    pub(crate) fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(crate) fn optional(value: Type) -> Self {
        Self::Optional(Arc::new(value))
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    /// Returns the inner type of an optional, and whether it was one.
    pub(crate) fn unwrapped(&self) -> (Type, bool) {
        match self {
            Self::Optional(value) => (value.as_ref().clone(), true),
            other => (other.clone(), false),
        }
    }

    fn params(&self) -> Vec<&Type> {
        match self {
            Self::List(element) | Self::Optional(element) => vec![element],
            Self::Map(key, value) => vec![key, value],
            Self::Meta(Some(inner)) => vec![inner],
            _ => Vec::new(),
        }
    }

    /// Whether `null` is assignable.
    fn nullable(&self) -> bool {
        matches!(
            self,
            Self::Null | Self::Optional(_) | Self::Opaque(_) | Self::Duration | Self::Timestamp
        )
    }

    fn same_constructor(&self, other: &Type) -> bool {
        match (self, other) {
            (Self::Opaque(left), Self::Opaque(right)) => left == right,
            (left, right) => std::mem::discriminant(left) == std::mem::discriminant(right),
        }
    }

    /// Rebuilds the type with each of its parts mapped.
    fn map_params(&self, part: &mut dyn FnMut(&Type) -> Type) -> Type {
        match self {
            Self::List(element) => Self::list(part(element)),
            Self::Optional(value) => Self::optional(part(value)),
            Self::Map(key, value) => {
                let key = part(key);
                Self::map(key, part(value))
            }
            Self::Meta(Some(inner)) => Self::Meta(Some(Arc::new(part(inner)))),
            other => other.clone(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Var(_) => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Meta(None) => f.write_str("type"),
            Self::Meta(Some(inner)) => write!(f, "type({inner})"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(value) => write!(f, "optional({value})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Param(name) => write!(f, "{name}"),
        }
    }
}

/// What is known about the type variables, with a trail to take back what a failed comparison
/// found out.
#[derive(Default)]
pub(crate) struct Bindings {
    bound: Vec<Option<Type>>,
    trail: Vec<(usize, Option<Type>)>,
}

impl Bindings {
    pub(crate) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Var(self.bound.len() - 1)
    }

    /// Returns whether a value of type `from` may stand where `to` is wanted; what that tells
    /// about variables is kept.
    pub(crate) fn assignable(&mut self, to: &Type, from: &Type) -> bool {
        self.all_assignable(std::slice::from_ref(to), std::slice::from_ref(from))
    }

    /// The same for arguments; nothing is kept unless all fit.
    pub(crate) fn all_assignable(&mut self, to: &[Type], from: &[Type]) -> bool {
        let mark = self.trail.len();
        let fits =
            to.len() == from.len() && to.iter().zip(from).all(|(to, from)| self.unify(to, from));
        if !fits {
            while self.trail.len() > mark {
                let Some((var, before)) = self.trail.pop() else { break };
                self.bound[var] = before;
            }
        }
        fits
    }

    fn bind(&mut self, var: usize, to: Type) {
        let before = self.bound[var].replace(to);
        self.trail.push((var, before));
    }

    fn unify(&mut self, left: &Type, right: &Type) -> bool {
        if let Type::Var(var) = right {
            match self.substitute_var(*var, left) {
                Substitution::Fits => return true,
                Substitution::Contradicts => return false,
                Substitution::Circular => {}
            }
        }
        if let Type::Var(var) = left {
            return matches!(self.substitute_var(*var, right), Substitution::Fits);
        }
        match (left, right) {
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::Null, other) | (other, Type::Null) => other.nullable(),
            (Type::Meta(_), Type::Meta(_)) => true,
            (left, right) if left.same_constructor(right) => {
                let (left, right) = (left.params(), right.params());
                left.len() == right.len()
                    && left.iter().zip(right).all(|(left, right)| self.unify(left, right))
            }
            _ => false,
        }
    }

    fn substitute_var(&mut self, var: usize, other: &Type) -> Substitution {
        if *other == Type::Var(var) {
            return Substitution::Fits;
        }
        let Some(known) = self.bound[var].clone() else {
            if self.occurs(var, other) {
                return Substitution::Circular;
            }
            self.bind(var, other.clone());
            return Substitution::Fits;
        };
        if known == *other {
            return Substitution::Fits;
        }
        if !self.unify(other, &known) {
            return Substitution::Contradicts;
        }
        let general = most_general(other, &known).clone();
        if !self.occurs(var, &general) {
            self.bind(var, general);
        }
        Substitution::Fits
    }

    fn occurs(&self, var: usize, within: &Type) -> bool {
        match within {
            Type::Var(other) if *other == var => true,
            Type::Var(other) => {
                self.bound[*other].as_ref().is_some_and(|known| self.occurs(var, known))
            }
            other => other.params().iter().any(|part| self.occurs(var, part)),
        }
    }

    /// Returns the type with what is known put in. Unknown variables stay.
    pub(crate) fn resolve(&self, of: &Type) -> Type {
        match of {
            Type::Var(var) => match &self.bound[*var] {
                Some(known) => self.resolve(known),
                None => of.clone(),
            },
            other => other.map_params(&mut |part| self.resolve(part)),
        }
    }

    /// The same; unknown variables become dyn.
    pub(crate) fn finish(&self, of: &Type) -> Type {
        match self.resolve(of) {
            Type::Var(_) => Type::Dyn,
            other => other.map_params(&mut |part| self.finish(part)),
        }
    }

    /// Puts fresh variables for the parameters of a signature.
    pub(crate) fn instantiate(&mut self, of: &Type, params: &mut Vec<(char, Type)>) -> Type {
        match of {
            Type::Param(name) => {
                if let Some((_, var)) = params.iter().find(|(known, _)| known == name) {
                    return var.clone();
                }
                let var = self.fresh();
                params.push((*name, var.clone()));
                var
            }
            other => other.map_params(&mut |part| self.instantiate(part, params)),
        }
    }
}

enum Substitution {
    Fits,
    Contradicts,
    Circular,
}

/// Returns the one of two assignable types that says less.
pub(crate) fn most_general<'t>(left: &'t Type, right: &'t Type) -> &'t Type {
    if less_specific(left, right) { left } else { right }
}

fn less_specific(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::Meta(_), Type::Meta(_)) => true,
        (left, right) if left.same_constructor(right) => {
            let (left, right) = (left.params(), right.params());
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| less_specific(left, right))
        }
        _ => false,
    }
}
