//! Reading label selectors.
//!
//! The grammar, and the words for what does not follow it, are those of a real server: `kubectl` shows them as they are.

use super::LabelTerm;
use crate::rules::names;

/// A piece of a selector. Words that are operators in one place are ordinary words in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }

    fn begins_requirement(self) -> bool {
        matches!(self, Self::Word(_) | Self::Symbol("!"))
    }
}

/// Parses a label selector; the error is the message for the client.
pub(crate) fn parse_labels(text: &str) -> Result<Vec<LabelTerm>, String> {
    let mut parser = Parser { rest: text };
    let mut terms = Vec::new();
    loop {
        match parser.peek() {
            Token::End => return Ok(terms),
            token if token.begins_requirement() => {}
            other => return Err(unexpected(other, "!, identifier, or 'end of string'")),
        }
        terms.push(parser.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?);
        match parser.next() {
            Token::End => return Ok(terms),
            Token::Symbol(",") if parser.peek().begins_requirement() => {}
            Token::Symbol(",") => return Err(unexpected(parser.peek(), "identifier after ','")),
            other => return Err(unexpected(other, "',' or 'end of string'")),
        }
    }
}

fn unexpected(found: Token<'_>, expected: &str) -> String {
    format!("found '{}', expected: {expected}", found.text())
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        Parser { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let is_end = |letter: char| " \t\r\n=!(),><".contains(letter);
        match SYMBOLS.into_iter().find(|symbol| self.rest.starts_with(symbol)) {
            Some(symbol) => Token::Symbol(self.take(symbol.len())),
            None if self.rest.is_empty() => Token::End,
            None => Token::Word(self.take(self.rest.find(is_end).unwrap_or(self.rest.len()))),
        }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn requirement(&mut self) -> Result<LabelTerm, String> {
        let negated = self.peek() == Token::Symbol("!");
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => label_key(key)?,
            other => return Err(unexpected(other, "identifier")),
        };
        match self.peek() {
            _ if negated => Ok(LabelTerm::Absent(key)),
            Token::End | Token::Symbol(",") => Ok(LabelTerm::Exists(key)),
            _ => self.comparison(key),
        }
    }

    fn comparison(&mut self, key: String) -> Result<LabelTerm, String> {
        let operator = self.next();
        match operator {
            Token::Word("in") => Ok(LabelTerm::In(key.clone(), label_values(&key, self.values()?)?)),
            Token::Word("notin") => Ok(LabelTerm::NotIn(key.clone(), label_values(&key, self.values()?)?)),
            Token::Symbol("=" | "==") => Ok(LabelTerm::In(key.clone(), label_values(&key, [self.value()?])?)),
            Token::Symbol("!=") => Ok(LabelTerm::NotIn(key.clone(), label_values(&key, [self.value()?])?)),
            Token::Symbol(">") => Ok(LabelTerm::Above(key, bound(self.value()?)?)),
            Token::Symbol("<") => Ok(LabelTerm::Below(key, bound(self.value()?)?)),
            other => Err(unexpected(other, "in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn value(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(""),
            Token::Word(value) => {
                self.next();
                Ok(value)
            }
            other => Err(unexpected(other, "identifier")),
        }
    }

    /// Values in parentheses, any of them empty: `()`, `(a,,b)`.
    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        if let other @ (Token::End | Token::Symbol("(" | "=" | "==" | "!=" | "!" | ">" | "<")) = self.peek() {
            return Err(unexpected(other, "',', ')' or identifier"));
        }
        let mut values = vec![""];
        loop {
            match (self.next(), values.last_mut()) {
                (Token::Symbol(")"), _) => return Ok(values),
                (Token::Symbol(","), _) => values.push(""),
                (Token::Word(word), Some(value)) if value.is_empty() => *value = word,
                (other, Some(value)) if !value.is_empty() => return Err(unexpected(other, "',' or ')'")),
                (other, _) => return Err(unexpected(other, "',', or identifier")),
            }
        }
    }
}

fn label_key(key: &str) -> Result<String, String> {
    match names::label_key(key) {
        wrong if wrong.is_empty() => Ok(key.to_owned()),
        // The place is that of nothing, which Go shows so.
        wrong => Err(format!("<nil>: Invalid value: {key:?}: {}", wrong.join("; "))),
    }
}

fn label_values<'a>(key: &str, values: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, String> {
    let mut values: Vec<String> = values.into_iter().map(str::to_owned).collect();
    values.sort_unstable();
    values.dedup();
    for (place, value) in values.iter().enumerate() {
        let wrong = names::label_value(value);
        if !wrong.is_empty() {
            return Err(format!("values[{place}][{key}]: Invalid value: {value:?}: {}", wrong.join("; ")));
        }
    }
    Ok(values)
}

fn bound(value: &str) -> Result<i64, String> {
    value.parse().map_err(|_| {
        format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_selector_is_refused_in_the_words_of_a_real_server() {
        let cases = [
            ("==", "found '==', expected: !, identifier, or 'end of string'"),
            (")", "found ')', expected: !, identifier, or 'end of string'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a notin", "unable to parse requirement: found '' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
            ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a=!b", "unable to parse requirement: found '!', expected: identifier"),
            ("a>=5", "unable to parse requirement: found '=', expected: identifier"),
            ("a!b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must \
                 be an integer",
            ),
            (
                "/a",
                "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_labels(text), Err(expected.to_owned()), "{text}");
        }
        for (text, place) in
            [("-a=b", "<nil>"), ("x/y/z=1", "<nil>"), ("a=-", "values[0][a]"), ("a in (b,-)", "values[0][a]")]
        {
            let why = parse_labels(text).unwrap_err();
            assert!(
                why.starts_with(&format!("unable to parse requirement: {place}: Invalid value: ")),
                "{why}"
            );
        }
    }

    #[test]
    fn words_are_operators_only_where_one_belongs() {
        let cases = [
            ("in in (in)", LabelTerm::In("in".into(), vec!["in".into()])),
            ("notin", LabelTerm::Exists("notin".into())),
            ("a=in", LabelTerm::In("a".into(), vec!["in".into()])),
            ("a in ()", LabelTerm::In("a".into(), vec![String::new()])),
            ("a notin (,b)", LabelTerm::NotIn("a".into(), vec![String::new(), "b".into()])),
            ("a=", LabelTerm::In("a".into(), vec![String::new()])),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_labels(text), Ok(vec![expected]), "{text}");
        }
    }
}
