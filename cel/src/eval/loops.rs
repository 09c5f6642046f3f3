//! Comprehensions.

use super::{Evaluator, Slot};
use crate::meter::{Eval, Limit, Stop};
use crate::plan::{Loop, Node};
use crate::value::{Entries, Map, Value};

impl<'a> Evaluator<'a> {
    pub(super) fn fold(&mut self, fold: &'a Loop) -> Eval<Value<'a>> {
        let range = self.eval(&fold.range)?;
        self.slots[fold.accu] = Slot::Lazy(&fold.init);
        match (&range, fold.var2) {
            (Value::List(list), var2) => {
                for (index, value) in list.iter().enumerate() {
                    let index = i64::try_from(index).unwrap_or(i64::MAX);
                    let (first, second) = match var2 {
                        Some(_) => (Value::Int(index), value),
                        None => (value, Value::Null),
                    };
                    if !self.turn(fold, first, second)? {
                        break;
                    }
                }
            }
            (Value::Map(map), _) => {
                for (key, value) in map.iter() {
                    if !self.turn(fold, key, value)? {
                        break;
                    }
                }
            }
            _ => {
                let message = format!("got '{}', expected iterable type", range.type_name());
                return Err(Stop::error(message));
            }
        }
        self.eval(&fold.result)
    }

    /// Runs the body once; false if the loop is to end.
    fn turn(&mut self, fold: &'a Loop, first: Value<'a>, second: Value<'a>) -> Eval<bool> {
        self.meter.work(1)?;
        self.slots[fold.var] = Slot::Known(Ok(first));
        if let Some(var2) = fold.var2 {
            self.slots[var2] = Slot::Known(Ok(second));
        }
        if let Ok(Value::Bool(false)) = self.settled(&fold.condition)? {
            return Ok(false);
        }
        let step = self.settled(&fold.step)?;
        self.slots[fold.accu] = Slot::Known(step);
        Ok(true)
    }

    /// Takes an accumulator out, so that it can grow where it is. The step puts it back.
    fn take(&mut self, slot: usize) -> Eval<Value<'a>> {
        if matches!(self.slots[slot], Slot::Lazy(_)) {
            let init = self.read(slot);
            self.slots[slot] = Slot::Known(init);
        }
        match std::mem::replace(&mut self.slots[slot], Slot::Empty) {
            Slot::Known(value) => value,
            _ => Err(Stop::error("a variable without a value")),
        }
    }

    /// Evaluates `@result + [value]`.
    pub(super) fn append(&mut self, slot: usize, value: &'a Node) -> Eval<Value<'a>> {
        self.meter.charge(1)?;
        let more = self.settled(value)?;
        let accu = self.take(slot);
        self.meter.charge(1)?;
        match (accu?, more?) {
            (Value::List(list), Value::List(more)) => {
                self.meter.work(more.len())?;
                Ok(Value::List(list.append(more.iter())))
            }
            _ => Err(Stop::no_overload()),
        }
    }

    /// Evaluates `cel.@mapInsert(@result, key, value)`, or with a map in place of the two.
    pub(super) fn insert(&mut self, slot: usize, args: &'a [Node]) -> Eval<Value<'a>> {
        let accu = self.take(slot);
        self.meter.charge(1)?;
        // A call with three arguments ends at the first that fails, one with two looks at both.
        let accu = match (accu, args.len()) {
            (accu @ Err(_), 2) => return accu,
            (accu, _) => accu,
        };
        let entries = match args {
            [key, value] => {
                let key = self.eval(key)?;
                let value = self.settled(value)?;
                self.meter.charge(1)?;
                vec![(key, value?)]
            }
            [map] => {
                let map = self.settled(map)?;
                self.meter.charge(1)?;
                match map? {
                    Value::Map(map) => map.iter().collect(),
                    _ => return Err(Stop::no_overload()),
                }
            }
            _ => return Err(Stop::no_overload()),
        };
        let Value::Map(Map::Made(mut accu)) = accu? else {
            return Err(Stop::no_overload());
        };
        let made = std::sync::Arc::make_mut(&mut accu);
        for (key, value) in entries {
            self.meter.work(1)?;
            add_new(made, key, value)?;
        }
        Ok(Value::Map(Map::Made(accu)))
    }
}

fn add_new<'a>(entries: &mut Entries<'a>, key: Value<'a>, value: Value<'a>) -> Eval<()> {
    if entries.find(&key).is_some() {
        return Err(Stop::error(format!("insert failed: key {key} already exists")));
    }
    match entries.set(key, value) {
        true => Ok(()),
        false => Err(Stop::Limit(Limit::Broken)),
    }
}
