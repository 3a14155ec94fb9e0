//! Running the CEL engine on expressions that strangers wrote.
//!
//! The engine parses and evaluates recursively with large frames: a few dozen nested parentheses exhaust the stack of an
//! ordinary thread, and that ends the process. So expressions are bounded, compiled on a thread with room to spare, and
//! evaluated in place only when they are shallow. A panic of the engine becomes an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use kube_cel::cel::Program;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use kube_cel::{CompiledSchema, ValidationError, compile_schema, validate_compiled};
use serde_json::Value;

/// Room for the longest expression, at some 40 KiB per level without optimisation. Only touched pages cost memory.
const STACK: usize = 256 << 20;
const MAX_LENGTH: usize = 32 << 10;
/// Each of these can make the expression one level deeper while it is parsed.
const DEEPENING: [char; 12] = ['.', '[', '(', '{', '+', '-', '*', '/', '%', '=', '<', '?'];
const MAX_DEEPENING: usize = 2000;
const MAX_DEPTH: usize = 1000;
/// What an ordinary thread evaluates safely.
const SHALLOW: usize = 12;

/// The rules of one schema node, compiled.
pub(super) struct Expressions {
    compiled: CompiledSchema,
    deep: bool,
}

/// Why an expression is refused without asking the engine.
pub(super) fn too_complex(expression: &str) -> Option<&'static str> {
    if expression.len() > MAX_LENGTH {
        return Some("the expression is too long");
    }
    (expression.matches(DEEPENING).count() > MAX_DEEPENING).then_some("the expression has too many parts")
}

impl Expressions {
    /// Compiles the rules of a schema node; the caller has checked that none is too complex.
    pub(super) fn compile(node: &Value) -> Result<Self, &'static str> {
        let (compiled, depth) = with_room(|| {
            let compiled = compile_schema(node);
            let depth = programs(&compiled).map(|program| depth(program.expression())).max().unwrap_or(0);
            (compiled, depth)
        })
        .ok_or("the expression cannot be parsed")?;
        if depth > MAX_DEPTH {
            return Err("the expression nests too deeply");
        }
        Ok(Self { compiled, deep: depth > SHALLOW })
    }

    pub(super) fn compiled(&self) -> &CompiledSchema {
        &self.compiled
    }

    /// The rules that do not hold, in order; `None` if the engine gave up.
    pub(super) fn evaluate(&self, value: &Value, old: Option<&Value>) -> Option<Vec<ValidationError>> {
        let run = || validate_compiled(&self.compiled, value, old);
        let result = if self.deep { with_room(run)? } else { catch_unwind(AssertUnwindSafe(run)).ok()? };
        Some(result.err().map(|errors| errors.into_vec()).unwrap_or_default())
    }
}

/// Runs `work` on a thread with a large stack; `None` if it panics or there is no memory for the thread.
fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread =
            thread::Builder::new().name("cel".to_owned()).stack_size(STACK).spawn_scoped(scope, work).ok()?;
        thread.join().ok()
    })
}

fn programs(compiled: &CompiledSchema) -> impl Iterator<Item = &Program> {
    let rules = compiled.validations.iter().filter_map(|rule| rule.as_ref().ok());
    rules.flat_map(|rule| [Some(&rule.program), rule.message_program.as_ref()]).flatten()
}

/// How many levels an expression has, counted without recursion.
fn depth(root: &IdedExpr) -> usize {
    let mut deepest = 0;
    let mut open = vec![(root, 1)];
    while let Some((node, level)) = open.pop() {
        deepest = deepest.max(level);
        open.extend(parts(&node.expr).into_iter().map(|part| (part, level + 1)));
    }
    deepest
}

fn parts(expr: &Expr) -> Vec<&IdedExpr> {
    match expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Select(select) => vec![&*select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Struct(fields) => fields.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Comprehension(each) => {
            vec![&each.iter_range, &each.accu_init, &each.loop_cond, &each.loop_step, &each.result]
        }
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compile(rule: &str) -> Result<Expressions, &'static str> {
        if let Some(reason) = too_complex(rule) {
            return Err(reason);
        }
        Expressions::compile(&json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]}))
    }

    #[test]
    fn no_expression_exhausts_the_stack() {
        let nested = |open: &str, inner: &str, close: &str, n: usize| {
            format!("{}{inner}{}", open.repeat(n), close.repeat(n))
        };
        for n in [10, 50, 90, 200, 1000, 10_000] {
            for rule in [
                nested("(", "true", ")", n),
                nested("[", "1", "]", n),
                nested("!", "true", "", n),
                nested("[1].all(x, ", "true", ")", n),
                nested("true ? true : ", "true", "", n),
                nested("", "self", ".a", n),
                nested("", "self", "['a']", n),
                nested("", "'a'", ".trim()", n),
                nested("", "1", " + 1", n),
                nested("", "true", " == true", n),
                nested("", "true", " && true", n),
            ] {
                if let Ok(expressions) = compile(&rule) {
                    expressions.evaluate(&json!({"a": 1}), None);
                }
            }
        }
    }

    #[test]
    fn expressions_of_reasonable_size_are_evaluated() {
        for (rule, holds) in [
            ("((((((((((self.a == 1))))))))))", true),
            ("[1, 2].all(x, [3].exists(y, y > x + self.a))", false),
        ] {
            let expressions = compile(rule).unwrap();
            assert_eq!(
                expressions.evaluate(&json!({"a": 1}), None).map(|found| found.is_empty()),
                Some(holds),
                "{rule}"
            );
        }
    }
}
