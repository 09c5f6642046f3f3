//! Macros. Each becomes the comprehension that cel-go makes of it, so that costs agree.

use cel::common::ast::{CallExpr, Expr, IdedExpr};

use crate::ast::{Element, Fold, Id, Kind, Literal};
use crate::error::CompileError;
use crate::parse::{Lowering, MAX_NODES};

/// Names that no selector can write.
const UNUSED: &str = "#unused";
const SORT_INPUT: &str = "@__sortBy_input__";
const ACCU: &str = "@result";

/// Returns the expansion of a call, or nothing if it is no macro.
pub(crate) fn expand(
    low: &mut Lowering<'_>,
    node: &IdedExpr,
    call: &CallExpr,
    depth: usize,
) -> Result<Option<Id>, CompileError> {
    let mut expansion = Expansion { at: low.offset(node), low, depth };
    let args = call.args.as_slice();
    let Some(target) = &call.target else {
        return match (call.func_name.as_str(), args) {
            ("has", [of]) => expansion.has(of).map(Some),
            _ => Ok(None),
        };
    };
    let expanded = match (call.func_name.as_str(), args) {
        ("bind", [name, init, result]) if is_cel(target) => expansion.bind(name, init, result)?,
        ("optMap", [name, body]) => expansion.opt_map(target, name, body, true)?,
        ("optFlatMap", [name, body]) => expansion.opt_map(target, name, body, false)?,
        ("sortBy", [name, key]) => expansion.sort_by(target, name, key)?,
        ("filter", [name, filter]) => expansion.filter(target, name, filter)?,
        ("map", [name, body]) => expansion.map(target, name, None, body)?,
        ("map", [name, filter, body]) => expansion.map(target, name, Some(filter), body)?,
        (quantifier @ ("all" | "exists" | "exists_one"), [name, body]) => {
            let name = expansion.name(name)?;
            expansion.quantifier(quantifier, target, (name, None), body)?
        }
        (quantifier @ ("all" | "exists" | "exists_one" | "existsOne"), [key, value, body]) => {
            let names = expansion.two_names(key, value)?;
            expansion.quantifier(quantifier, target, names, body)?
        }
        (
            name @ ("transformList" | "transformMap" | "transformMapEntry"),
            [key, value, rest @ ..],
        ) if (1..=2).contains(&rest.len()) => {
            expansion.transform(name, target, key, value, rest)?
        }
        _ => return Ok(None),
    };
    Ok(Some(expanded))
}

/// The variables of a loop.
type Names = (String, Option<String>);

fn is_cel(target: &IdedExpr) -> bool {
    matches!(&target.expr, Expr::Ident(name) if name == "cel")
}

struct Expansion<'l, 't> {
    low: &'l mut Lowering<'t>,
    at: usize,
    depth: usize,
}

impl Expansion<'_, '_> {
    fn bind(
        &mut self,
        name: &IdedExpr,
        init: &IdedExpr,
        result: &IdedExpr,
    ) -> Result<Id, CompileError> {
        let name = self.name(name)?;
        let init = self.lower(init)?;
        let result = self.lower(result)?;
        Ok(self.let_in(name, init, result))
    }

    /// A comprehension over nothing: its accumulator is a local variable.
    fn let_in(&mut self, name: String, init: Id, result: Id) -> Id {
        let range = self.add(Kind::List(Vec::new()));
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(&name);
        let var = UNUSED.to_owned();
        let fold = Fold { range, var, var2: None, accu: name, init, condition, step, result };
        self.add(Kind::Fold(Box::new(fold)))
    }

    /// `t.hasValue() ? optional.of(let x = t.value() in body) : optional.none()`.
    fn opt_map(
        &mut self,
        target: &IdedExpr,
        name: &IdedExpr,
        body: &IdedExpr,
        wrap: bool,
    ) -> Result<Id, CompileError> {
        let name = self.name(name)?;
        let target = self.lower(target)?;
        if self.low.ast.len() + self.low.ast.weight(target) > MAX_NODES {
            return Err(self.low.error(self.at, "optMap nested too deep: use cel.bind"));
        }
        let copy = self.low.ast.copy(target);
        let body = self.lower(body)?;
        let has_value = self.method(target, "hasValue", Vec::new());
        let value = self.method(copy, "value", Vec::new());
        let mapped = self.let_in(name, value, body);
        let mapped = if wrap { self.call("optional.of", vec![mapped]) } else { mapped };
        let none = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![has_value, mapped, none]))
    }

    fn sort_by(
        &mut self,
        target: &IdedExpr,
        name: &IdedExpr,
        key: &IdedExpr,
    ) -> Result<Id, CompileError> {
        if matches!(target.expr, Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_)) {
            let at = self.low.offset(target);
            return Err(self.low.error(at, "sortBy sorts lists: call it on one"));
        }
        let name = self.name(name)?;
        let target = self.lower(target)?;
        let key = self.lower(key)?;
        let input = self.ident(SORT_INPUT);
        let keys = self.list_of(input, (name, None), key, None);
        let sorted = self.ident(SORT_INPUT);
        let sorted = self.method(sorted, "@sortByAssociatedKeys", vec![keys]);
        Ok(self.let_in(SORT_INPUT.to_owned(), target, sorted))
    }

    fn has(&mut self, of: &IdedExpr) -> Result<Id, CompileError> {
        let Expr::Select(select) = &of.expr else {
            let at = self.low.offset(of);
            return Err(self.low.error(at, "has() wants a selection: has(value.field)"));
        };
        let operand = self.lower(&select.operand)?;
        Ok(self.add(Kind::Select { operand, field: select.field.clone(), test: true }))
    }

    fn filter(
        &mut self,
        target: &IdedExpr,
        name: &IdedExpr,
        filter: &IdedExpr,
    ) -> Result<Id, CompileError> {
        let name = self.name(name)?;
        let range = self.lower(target)?;
        let filter = self.lower(filter)?;
        let body = self.ident(&name);
        Ok(self.list_of(range, (name, None), body, Some(filter)))
    }

    fn map(
        &mut self,
        target: &IdedExpr,
        name: &IdedExpr,
        filter: Option<&IdedExpr>,
        body: &IdedExpr,
    ) -> Result<Id, CompileError> {
        let name = self.name(name)?;
        let range = self.lower(target)?;
        let filter = filter.map(|filter| self.lower(filter)).transpose()?;
        let body = self.lower(body)?;
        Ok(self.list_of(range, (name, None), body, filter))
    }

    fn quantifier(
        &mut self,
        quantifier: &str,
        target: &IdedExpr,
        (var, var2): Names,
        body: &IdedExpr,
    ) -> Result<Id, CompileError> {
        let range = self.lower(target)?;
        let body = self.lower(body)?;
        let accu = self.accu();
        let (init, condition, step, result) = match quantifier {
            "all" => {
                let condition = self.call("@not_strictly_false", vec![accu]);
                let accu = self.accu();
                let step = self.call("_&&_", vec![accu, body]);
                (Literal::Bool(true), condition, step, self.accu())
            }
            "exists" => {
                let not = self.call("!_", vec![accu]);
                let condition = self.call("@not_strictly_false", vec![not]);
                let accu = self.accu();
                let step = self.call("_||_", vec![accu, body]);
                (Literal::Bool(false), condition, step, self.accu())
            }
            _ => {
                let condition = self.literal(Literal::Bool(true));
                let one = self.literal(Literal::Int(1));
                let more = self.call("_+_", vec![accu, one]);
                let same = self.accu();
                let step = self.call("_?_:_", vec![body, more, same]);
                let (accu, one) = (self.accu(), self.literal(Literal::Int(1)));
                (Literal::Int(0), condition, step, self.call("_==_", vec![accu, one]))
            }
        };
        let init = self.literal(init);
        let accu = ACCU.to_owned();
        let fold = Fold { range, var, var2, accu, init, condition, step, result };
        Ok(self.add(Kind::Fold(Box::new(fold))))
    }

    /// `transformList(k, v, [filter,] body)` and its siblings for maps.
    fn transform(
        &mut self,
        function: &str,
        target: &IdedExpr,
        key: &IdedExpr,
        value: &IdedExpr,
        rest: &[IdedExpr],
    ) -> Result<Id, CompileError> {
        let names = self.two_names(key, value)?;
        let range = self.lower(target)?;
        let filter = match rest {
            [filter, _] => Some(self.lower(filter)?),
            _ => None,
        };
        let body = self.lower(&rest[rest.len() - 1])?;
        if function == "transformList" {
            return Ok(self.list_of(range, names, body, filter));
        }
        let accu = self.accu();
        let mut args = vec![accu];
        if function == "transformMap" {
            args.push(self.ident(&names.0));
        }
        args.push(body);
        let step = self.call("cel.@mapInsert", args);
        let init = self.add(Kind::Map(Vec::new()));
        Ok(self.collect(range, names, init, step, filter))
    }

    /// The list of `body` for each element of `range`.
    fn list_of(&mut self, range: Id, names: Names, body: Id, filter: Option<Id>) -> Id {
        let accu = self.accu();
        let one = self.add(Kind::List(vec![Element { value: body, optional: false }]));
        let step = self.call("_+_", vec![accu, one]);
        let init = self.add(Kind::List(Vec::new()));
        self.collect(range, names, init, step, filter)
    }

    fn collect(
        &mut self,
        range: Id,
        (var, var2): Names,
        init: Id,
        step: Id,
        filter: Option<Id>,
    ) -> Id {
        let step = match filter {
            Some(filter) => {
                let same = self.accu();
                self.call("_?_:_", vec![filter, step, same])
            }
            None => step,
        };
        let condition = self.literal(Literal::Bool(true));
        let (accu, result) = (ACCU.to_owned(), self.accu());
        let fold = Fold { range, var, var2, accu, init, condition, step, result };
        self.add(Kind::Fold(Box::new(fold)))
    }

    fn two_names(&self, key: &IdedExpr, value: &IdedExpr) -> Result<Names, CompileError> {
        let (var, var2) = (self.name(key)?, self.name(value)?);
        if var == var2 {
            let at = self.low.offset(value);
            return Err(self.low.error(at, format!("duplicate variable name: {var}")));
        }
        Ok((var, Some(var2)))
    }

    fn name(&self, node: &IdedExpr) -> Result<String, CompileError> {
        match &node.expr {
            Expr::Ident(name) if name == "__result__" => {
                let text = "iteration variable overwrites accumulator variable: rename it";
                Err(self.low.error(self.low.offset(node), text))
            }
            Expr::Ident(name) => Ok(name.clone()),
            _ => Err(self.low.error(self.low.offset(node), "argument must be a simple name")),
        }
    }

    fn lower(&mut self, node: &IdedExpr) -> Result<Id, CompileError> {
        self.low.expression(node, self.depth)
    }

    fn add(&mut self, kind: Kind) -> Id {
        self.low.ast.add(self.at, kind)
    }

    fn literal(&mut self, literal: Literal) -> Id {
        self.add(Kind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> Id {
        self.add(Kind::Ident(name.to_owned()))
    }

    fn accu(&mut self) -> Id {
        self.ident(ACCU)
    }

    fn call(&mut self, function: &str, args: Vec<Id>) -> Id {
        self.add(Kind::Call { function: function.to_owned(), target: None, args })
    }

    fn method(&mut self, target: Id, function: &str, args: Vec<Id>) -> Id {
        self.add(Kind::Call { function: function.to_owned(), target: Some(target), args })
    }
}
