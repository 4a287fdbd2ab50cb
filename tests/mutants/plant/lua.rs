//! What a Lua script consists of: its functions, their statements and conditions.

use std::ops::Range;

use super::tokens::{Language, Token, bytes, tokens};
use super::tree::{Item, Kind, Parsed, Region};

pub(crate) fn parsed(text: &str, modules: &[String]) -> Result<Parsed, String> {
    let mut parser = Parser {
        tokens: tokens(text, Language::Lua),
        at: 0,
        path: [&["lua".to_owned()], modules].concat(),
        parsed: Parsed::default(),
    };
    parser.block()?;
    if parser.at < parser.tokens.len() {
        let rest = &text[parser.tokens[parser.at].start..];
        return Err(format!("not understood: {:?}", rest.lines().next()));
    }
    let functions = parser.parsed.items.iter().map(|item| item.bytes.clone());
    let without = functions.collect();
    let script = Item {
        path: parser.path,
        bytes: 0..text.len(),
        without,
    };
    parser.parsed.items.push(script);
    Ok(parser.parsed)
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    path: Vec<String>,
    parsed: Parsed,
}

impl Parser<'_> {
    fn text(&self) -> &str {
        self.tokens.get(self.at).map_or("", |token| token.text)
    }

    fn is_over(&self) -> bool {
        matches!(self.text(), "" | "end" | "else" | "elseif" | "until")
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        let is = self.text();
        if is != word {
            let line = self.tokens.get(self.at).map_or(0, |token| token.start);
            return Err(format!("{is:?} at byte {line} where {word:?} is expected"));
        }
        self.at += 1;
        Ok(())
    }

    fn block(&mut self) -> Result<(), String> {
        while !self.is_over() {
            let from = self.at;
            self.statement()?;
            self.region(Kind::Statement, from..self.at);
        }
        Ok(())
    }

    fn region(&mut self, kind: Kind, range: Range<usize>) {
        let bytes = bytes(&self.tokens, range);
        self.parsed.regions.push(Region { kind, bytes });
    }

    fn statement(&mut self) -> Result<(), String> {
        match self.text() {
            "if" => {
                while self.text() != "end" {
                    let is_else = self.text() == "else";
                    self.at += 1;
                    if !is_else {
                        self.condition("then")?;
                        self.expect("then")?;
                    }
                    self.block()?;
                }
                self.expect("end")
            }
            "while" => {
                self.at += 1;
                self.condition("do")?;
                self.body()
            }
            "for" => {
                self.at += 1;
                self.locals();
                self.expression(|word| word == "do")?;
                self.body()
            }
            "do" => self.body(),
            "repeat" => {
                self.at += 1;
                self.block()?;
                self.expect("until")?;
                let from = self.at;
                self.expression(|_| false)?;
                self.region(Kind::Condition, from..self.at);
                Ok(())
            }
            "local"
                if self
                    .tokens
                    .get(self.at + 1)
                    .is_some_and(|is| is.text == "function") =>
            {
                self.at += 1;
                self.function(self.at - 1)
            }
            "function" => self.function(self.at),
            "local" => {
                self.at += 1;
                self.locals();
                self.expression(|_| false)
            }
            _ => {
                self.at += 1;
                self.expression(|_| false)
            }
        }
    }

    fn body(&mut self) -> Result<(), String> {
        self.expect("do")?;
        self.block()?;
        self.expect("end")
    }

    /// The names of a list, but for those of constants.
    fn locals(&mut self) {
        while let Some(token) = self.tokens.get(self.at) {
            if token.is_name() && !token.text.starts_with(char::is_uppercase) {
                let local = (token.start, token.text.to_owned());
                self.parsed.locals.push(local);
            }
            let goes_on = self.tokens.get(self.at + 1);
            if goes_on.is_none_or(|next| next.text != ",") {
                return;
            }
            self.at += 2;
        }
    }

    fn condition(&mut self, end: &str) -> Result<(), String> {
        let from = self.at;
        self.expression(|word| word == end)?;
        self.region(Kind::Condition, from..self.at);
        Ok(())
    }

    /// Goes on to a word that ends it, to where no expression can go on, or to the end of the block.
    fn expression(&mut self, ends: impl Fn(&str) -> bool) -> Result<(), String> {
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            let token = self.tokens[self.at].clone();
            if depth == 0 && (ends(token.text) || self.is_over() || self.begins_a_statement()) {
                return Ok(());
            }
            match token.text {
                "function" => {
                    self.function(self.at)?;
                    continue;
                }
                _ if token.opens() => depth += 1,
                _ if token.closes() => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Whether an expression has ended before this token, and a statement begins with it.
    fn begins_a_statement(&self) -> bool {
        const GO_ON: [&str; 14] = [
            "and", "or", "not", "in", "return", "local", "then", "do", "for", "if", "while",
            "elseif", "else", "until",
        ];
        let before = &self.tokens[self.at - 1];
        let is_end = !GO_ON.contains(&before.text)
            && (before.is_name()
                || before.closes()
                || before.text.ends_with(['"', '\''])
                || before.text.starts_with(|c: char| c.is_ascii_digit()));
        let token = &self.tokens[self.at];
        let is_go_on = matches!(token.text, "and" | "or" | "in" | "then");
        is_end && token.is_name() && !is_go_on
    }

    /// A function from the word `function` on, which begins at `start` and has a name before or after
    /// that word, or none.
    fn function(&mut self, start: usize) -> Result<(), String> {
        let before = self.at.checked_sub(2).map(|at| &self.tokens[at..self.at]);
        let assigned = before.filter(|before| before[1].text == "=");
        let assigned = assigned.map(|before| before[0].text.to_owned());
        self.expect("function")?;
        let mut name = assigned;
        while self.text() != "(" {
            let part = self.text().to_owned();
            name = Some(name.unwrap_or_default() + &part);
            self.at += 1;
        }
        self.at += 1;
        self.locals();
        while self.text() != ")" {
            self.at += 1;
        }
        self.at += 1;
        if let Some(name) = &name {
            self.path.push(name.clone());
        }
        self.block()?;
        self.expect("end")?;
        if name.is_some() {
            self.parsed.items.push(Item {
                path: self.path.clone(),
                bytes: bytes(&self.tokens, start..self.at),
                without: Vec::new(),
            });
            self.path.pop();
        }
        Ok(())
    }
}
