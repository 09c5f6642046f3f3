//! The parsed selector: an arena of nodes, children before their parents, macros expanded.

/// The place of a node in its [`Ast`].
pub(crate) type Id = usize;

#[derive(Debug, Default)]
pub(crate) struct Ast {
    nodes: Vec<Node>,
    root: Id,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Byte offset in the text.
    pub(crate) at: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    /// `operand.field`, or `has(operand.field)`.
    Select {
        operand: Id,
        field: String,
        test: bool,
    },
    Call {
        function: String,
        target: Option<Id>,
        args: Vec<Id>,
    },
    List(Vec<Element>),
    Map(Vec<Entry>),
    Fold(Box<Fold>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    pub(crate) value: Id,
    /// Written `?value`: an optional, left out if it is empty.
    pub(crate) optional: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Id,
    pub(crate) value: Id,
    pub(crate) optional: bool,
}

/// A comprehension: `accu = init; for var in range while condition: accu = step; result`.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) range: Id,
    pub(crate) var: String,
    pub(crate) var2: Option<String>,
    pub(crate) accu: String,
    pub(crate) init: Id,
    pub(crate) condition: Id,
    pub(crate) step: Id,
    pub(crate) result: Id,
}

impl Ast {
    pub(crate) fn add(&mut self, at: usize, kind: Kind) -> Id {
        self.nodes.push(Node { kind, at });
        self.nodes.len() - 1
    }

    pub(crate) fn set_root(&mut self, root: Id) {
        self.root = root;
    }

    pub(crate) fn root(&self) -> Id {
        self.root
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn kind(&self, id: Id) -> &Kind {
        &self.nodes[id].kind
    }

    pub(crate) fn at(&self, id: Id) -> usize {
        self.nodes[id].at
    }

    /// Turns `id` into another kind of node; what the checker found out stays in the tree.
    pub(crate) fn replace(&mut self, id: Id, kind: Kind) {
        self.nodes[id].kind = kind;
    }

    /// Returns the nodes that `id` is made of.
    pub(crate) fn children(&self, id: Id) -> Vec<Id> {
        match self.kind(id) {
            Kind::Literal(_) | Kind::Ident(_) => Vec::new(),
            Kind::Select { operand, .. } => vec![*operand],
            Kind::Call { target, args, .. } => target.iter().chain(args).copied().collect(),
            Kind::List(elements) => elements.iter().map(|element| element.value).collect(),
            Kind::Map(entries) => {
                entries.iter().flat_map(|entry| [entry.key, entry.value]).collect()
            }
            Kind::Fold(fold) => {
                vec![fold.range, fold.init, fold.condition, fold.step, fold.result]
            }
        }
    }

    /// Copies the tree below `id`.
    pub(crate) fn copy(&mut self, id: Id) -> Id {
        let Node { mut kind, at } = self.nodes[id].clone();
        match &mut kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => *operand = self.copy(*operand),
            Kind::Call { target, args, .. } => {
                for child in target.iter_mut().chain(args) {
                    *child = self.copy(*child);
                }
            }
            Kind::List(elements) => {
                for element in elements {
                    element.value = self.copy(element.value);
                }
            }
            Kind::Map(entries) => {
                for entry in entries {
                    entry.key = self.copy(entry.key);
                    entry.value = self.copy(entry.value);
                }
            }
            Kind::Fold(fold) => {
                let Fold { range, init, condition, step, result, .. } = fold.as_mut();
                for child in [range, init, condition, step, result] {
                    *child = self.copy(*child);
                }
            }
        }
        self.add(at, kind)
    }

    /// Returns how many nodes the tree below `id` has.
    pub(crate) fn weight(&self, id: Id) -> usize {
        let mut open = vec![id];
        let mut count = 0;
        while let Some(id) = open.pop() {
            count += 1;
            open.extend(self.children(id));
        }
        count
    }
}
