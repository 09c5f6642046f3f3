//! Text to [`Ast`]: the `cel` crate parses, this file takes its tree over and has macros expanded.

use cel::Env;
use cel::common::ast as parsed;
use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo};

use crate::ast::{Ast, Element, Entry, Id, Kind, Literal};
use crate::error::CompileError;
use crate::macros;
use crate::scan;

/// What macros may expand a selector to; nested `optMap` doubles its target each time.
pub(crate) const MAX_NODES: usize = 20_000;

/// Parses a selector.
///
/// # Errors
/// The first syntax error, or what [`scan::check`] refuses.
pub(crate) fn parse(text: &str) -> Result<Ast, CompileError> {
    scan::check(text)?;
    let depth = u16::try_from(scan::MAX_DEPTH).unwrap_or(u16::MAX);
    // An environment without functions and macros: nothing but the syntax.
    let parser =
        Env::default().parser().max_recursion_depth(depth).enable_ident_escape_syntax(true);
    let (root, source) = parser.parse_with_source_info(text).map_err(|errors| {
        // Some speak of the parser's own rules; what follows from them is said better elsewhere.
        let plain = |error: &&cel::ParseError| !error.msg.contains("Context");
        let first = errors.errors.iter().find(plain);
        let (line, column) = first.map_or((1, 1), |error| error.pos);
        let message = first
            .map_or("no expression: look for a missing operand or bracket", |error| {
                error.msg.as_str()
            });
        CompileError {
            line: usize::try_from(line).unwrap_or(1).max(1),
            column: usize::try_from(column).unwrap_or(1).max(1),
            message: message.trim_start_matches("Syntax error: ").to_owned(),
        }
    })?;
    let mut lowering = Lowering { text, source: &source, ast: Ast::default() };
    let root = lowering.expression(&root, 0)?;
    lowering.ast.set_root(root);
    Ok(lowering.ast)
}

pub(crate) struct Lowering<'t> {
    text: &'t str,
    source: &'t SourceInfo,
    pub(crate) ast: Ast,
}

impl Lowering<'_> {
    /// Returns an error at a byte of the text.
    pub(crate) fn error(&self, at: usize, message: impl Into<String>) -> CompileError {
        CompileError::at(self.text, at, message)
    }

    pub(crate) fn offset(&self, node: &IdedExpr) -> usize {
        self.source.offset_for(node.id).map_or(0, |(start, _)| start as usize)
    }

    /// Takes a node over. `depth` counts what cel-go counts: arithmetic, relations, ternaries,
    /// selections, calls on a target and indexes above it.
    pub(crate) fn expression(&mut self, node: &IdedExpr, depth: usize) -> Result<Id, CompileError> {
        let at = self.offset(node);
        if depth > scan::MAX_DEPTH || self.ast.len() > MAX_NODES {
            return Err(self.error(at, "too deep or too long: split the selector in several"));
        }
        let kind = match &node.expr {
            Expr::Literal(literal) => Kind::Literal(literal_of(literal)),
            Expr::Ident(name) => Kind::Ident(name.clone()),
            Expr::Select(select) => Kind::Select {
                operand: self.expression(&select.operand, depth + 1)?,
                field: select.field.clone(),
                test: select.test,
            },
            Expr::Call(call) => return self.call(node, call, depth),
            Expr::List(list) => self.list(list, depth)?,
            Expr::Map(map) => self.map(map, depth)?,
            Expr::Struct(message) => {
                let text = format!("messages can't be made here: remove {}{{}}", message.type_name);
                return Err(self.error(at, text));
            }
            Expr::Unspecified | Expr::Comprehension(_) => {
                return Err(self.error(at, "an expression is missing here"));
            }
        };
        Ok(self.ast.add(at, kind))
    }

    fn call(
        &mut self,
        node: &IdedExpr,
        call: &parsed::CallExpr,
        depth: usize,
    ) -> Result<Id, CompileError> {
        let inner = depth + usize::from(call.target.is_some());
        if let Some(expanded) = macros::expand(self, node, call, inner)? {
            return Ok(expanded);
        }
        let name = call.func_name.as_str();
        let operator = name.contains('_') && !matches!(name, "_&&_" | "_||_" | "!_" | "-_");
        let depth = depth + usize::from(operator || call.target.is_some());
        let target = match &call.target {
            Some(target) => Some(self.expression(target, depth)?),
            None => None,
        };
        let args = self.all(&call.args, depth)?;
        let kind = Kind::Call { function: call.func_name.clone(), target, args };
        Ok(self.ast.add(self.offset(node), kind))
    }

    fn all(&mut self, nodes: &[IdedExpr], depth: usize) -> Result<Vec<Id>, CompileError> {
        nodes.iter().map(|node| self.expression(node, depth)).collect()
    }

    fn list(&mut self, list: &parsed::ListExpr, depth: usize) -> Result<Kind, CompileError> {
        let values = self.all(&list.elements, depth)?;
        let elements = values.into_iter().enumerate().map(|(index, value)| Element {
            value,
            optional: list.optional_indices.contains(&index),
        });
        Ok(Kind::List(elements.collect()))
    }

    fn map(&mut self, map: &parsed::MapExpr, depth: usize) -> Result<Kind, CompileError> {
        let mut entries = Vec::with_capacity(map.entries.len());
        for entry in &map.entries {
            // Fields are of messages, which are refused as such.
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            entries.push(Entry {
                key: self.expression(&entry.key, depth)?,
                value: self.expression(&entry.value, depth)?,
                optional: entry.optional,
            });
        }
        Ok(Kind::Map(entries))
    }
}

fn literal_of(literal: &LiteralValue) -> Literal {
    match literal {
        LiteralValue::Null => Literal::Null,
        LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
        LiteralValue::Int(value) => Literal::Int(*value.inner()),
        LiteralValue::UInt(value) => Literal::Uint(*value.inner()),
        LiteralValue::Double(value) => Literal::Double(*value.inner()),
        LiteralValue::String(value) => Literal::String(value.inner().to_owned()),
        LiteralValue::Bytes(value) => Literal::Bytes(value.inner().to_vec()),
    }
}
