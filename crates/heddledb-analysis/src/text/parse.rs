//! From text to a workload, or to the place where it goes wrong.

use super::nearest::slip;
use super::words::{Line, ParseError, Rest, Word, end_of_line, words};
use crate::workload::{Access, Columns, Group, Mode, Step, Table, TableKind, Transaction, Workload};
use std::collections::BTreeMap;

/// How deep blocks may be nested.
const DEPTH: usize = 64;
const MODES: &str = "read, update, add, insert, delete or scan";
const IN_FILE: [&str; 3] = ["workload", "table", "txn"];
const IN_TXN: [&str; 11] =
    ["read", "update", "add", "insert", "delete", "scan", "loop", "if", "else", "piece", "end"];
const OF_TABLE: [&str; 5] = ["static", "appendonly", "key", "cols", "group"];
const OF_TXN: [&str; 2] = ["weight", "readonly"];
const OF_ACCESS: [&str; 7] = ["by", "cols", "reads", "causal", "no_abort", "deferred", "piece"];

/// Reads a workload.
///
/// # Errors
///
/// The first place where the text is not one.
pub fn parse(text: &str) -> Result<Workload, ParseError> {
    let mut parser = Parser::default();
    let mut last = 1;
    for (at, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        last = at + 1;
        let words = words(at + 1, line);
        if let Some(first) = words.first() {
            parser.line(&Line { words: &words, first })?;
        }
    }
    parser.finish(last)
}

/// A block that is still open.
struct Block {
    kind: BlockKind,
    opened: Word,
    steps: Vec<Step>,
}

enum BlockKind {
    Loop,
    Piece,
    Then,
    Else(Vec<Step>),
}

/// A transaction that is still open.
struct Open {
    transaction: Transaction,
    opened: Word,
    blocks: Vec<Block>,
    /// The number of the last access outside of all blocks, and all numbers so far.
    last: Option<u32>,
    numbers: Vec<u32>,
}

/// A name that is only looked up when all tables are known.
struct Use {
    word: Word,
    table: String,
    column: bool,
    writes: bool,
}

#[derive(Default)]
struct Parser {
    name: Option<String>,
    tables: Vec<Table>,
    places: BTreeMap<String, usize>,
    transactions: Vec<Transaction>,
    open: Option<Open>,
    uses: Vec<Use>,
}

impl Parser {
    fn line(&mut self, line: &Line<'_>) -> Result<(), ParseError> {
        let keyword = line.first.text.as_str();
        let mut rest = Rest { words: &line.words[1..], before: line.first };
        if self.open.is_some() {
            return self.in_txn(line.first, &mut rest);
        }
        if self.name.is_none() && keyword != "workload" {
            let message = format!("a text begins with `workload NAME`, not with `{keyword}`");
            return Err(line.first.refuse_with(message, ["workload"]));
        }
        match keyword {
            "workload" if self.name.is_some() => Err(line.first.refuse("a text has one workload only")),
            "workload" => {
                self.name = Some(rest.need("the workload's name")?.name()?);
                end_of_line(&mut rest, "after the workload's name")
            }
            "table" => self.table(&mut rest),
            "txn" => self.txn(line.first, &mut rest),
            _ if IN_TXN.contains(&keyword) => {
                Err(line.first.refuse(format!("`{keyword}` stands in no transaction; `txn NAME` opens one")))
            }
            _ => {
                let message = format!("`{keyword}` is not known here; a line begins with table or txn");
                Err(line.first.refuse_with(message, IN_FILE))
            }
        }
    }

    fn table(&mut self, rest: &mut Rest<'_>) -> Result<(), ParseError> {
        let first = rest.words.first().cloned();
        let names = rest.names("a table's name", &OF_TABLE)?;
        let at = first.as_ref().unwrap_or(rest.before).clone();
        for name in &names {
            if self.places.contains_key(name) {
                return Err(at.refuse(format!("table `{name}` is declared twice")));
            }
        }
        let mut table = Table::new(names[0].clone());
        let mut seen: Vec<&str> = Vec::new();
        while let Some(word) = rest.next() {
            let keyword = word.text.as_str();
            let kind = matches!(keyword, "static" | "appendonly");
            let again =
                seen.iter().any(|one| *one == keyword || (kind && matches!(*one, "static" | "appendonly")));
            if again && keyword != "group" {
                return Err(word.refuse(format!("`{keyword}` is one too many")));
            }
            if !kind && OF_TABLE.contains(&keyword) && names.len() > 1 {
                return Err(
                    word.refuse(format!("`{keyword}` goes with one table, and here are {}", names.len()))
                );
            }
            match keyword {
                "static" => table.kind = TableKind::Static,
                "appendonly" => table.kind = TableKind::AppendOnly,
                "key" => table.key = rest.names("a column's name", &OF_TABLE)?,
                "cols" => table.columns = rest.names("a column's name", &OF_TABLE)?,
                "group" => self.group(&mut table, rest)?,
                _ => {
                    let message =
                        format!("`{keyword}` is not known here; a table is {}", OF_TABLE.join(", "));
                    return Err(word.refuse_with(message, OF_TABLE));
                }
            }
            seen.push(keyword);
        }
        for name in names {
            self.places.insert(name.clone(), self.tables.len());
            self.tables.push(Table { name, ..table.clone() });
        }
        Ok(())
    }

    fn group(&mut self, table: &mut Table, rest: &mut Rest<'_>) -> Result<(), ParseError> {
        let word = rest.need("the group's name")?;
        let name = word.name()?;
        if table.groups.iter().any(|group| group.name == name) {
            return Err(word.refuse(format!("group `{name}` is declared twice")));
        }
        let from = rest.words;
        let columns = rest.names("a column's name", &OF_TABLE)?;
        for (column, word) in columns.iter().zip(from) {
            if table.groups.iter().any(|group| group.columns.contains(column)) {
                return Err(word.refuse(format!("`{column}` is in two groups")));
            }
            let known = table.key.iter().chain(&table.columns).map(String::as_str);
            if known.clone().all(|one| one != column) {
                let message = format!("group `{name}` may have columns that `key` or `cols` names before it");
                return Err(word.refuse_with(message, known));
            }
        }
        table.groups.push(Group { name, columns });
        Ok(())
    }

    fn txn(&mut self, opened: &Word, rest: &mut Rest<'_>) -> Result<(), ParseError> {
        let word = rest.need("the transaction's name")?;
        let mut transaction = Transaction::new(word.name()?, Vec::new());
        if self.transactions.iter().any(|one| one.name == transaction.name) {
            return Err(word.refuse(format!("transaction `{}` is declared twice", transaction.name)));
        }
        while let Some(word) = rest.next() {
            match word.text.as_str() {
                "weight" if transaction.weight.is_some() => {
                    return Err(word.refuse("`weight` is one too many"));
                }
                "weight" => transaction.weight = Some(rest.need("a number")?.number()?),
                "readonly" if transaction.readonly => {
                    return Err(word.refuse("`readonly` is one too many"));
                }
                "readonly" => transaction.readonly = true,
                other => {
                    let message =
                        format!("`{other}` is not known here; a transaction has weight or readonly");
                    return Err(word.refuse_with(message, OF_TXN));
                }
            }
        }
        self.open = Some(Open {
            transaction,
            opened: opened.clone(),
            blocks: Vec::new(),
            last: None,
            numbers: Vec::new(),
        });
        Ok(())
    }

    fn in_txn(&mut self, first: &Word, rest: &mut Rest<'_>) -> Result<(), ParseError> {
        let keyword = first.text.as_str();
        if let Some(mode) = Mode::ALL.into_iter().find(|mode| mode.word() == keyword) {
            return self.access(mode, first, rest);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        match keyword {
            "loop" | "piece" | "if" => {
                if open.blocks.len() == DEPTH {
                    return Err(first.refuse(format!("blocks are nested deeper than {DEPTH}")));
                }
                let kind = match keyword {
                    "loop" => BlockKind::Loop,
                    "piece" => BlockKind::Piece,
                    _ => BlockKind::Then,
                };
                // A piece by hand that began before does not go on behind it.
                open.last = None;
                open.blocks.push(Block { kind, opened: first.clone(), steps: Vec::new() });
            }
            "else" => match open.blocks.last_mut() {
                Some(block) if matches!(block.kind, BlockKind::Then) => {
                    block.kind = BlockKind::Else(std::mem::take(&mut block.steps));
                    open.last = None;
                }
                _ => return Err(first.refuse("`else` belongs to no `if`")),
            },
            "end" => match open.blocks.pop() {
                Some(block) => {
                    let step = close(block)?;
                    open.last = None;
                    steps(open).push(step);
                }
                None => {
                    end_of_line(rest, "after `end`")?;
                    return self.close();
                }
            },
            "txn" | "table" | "workload" => {
                let message = format!(
                    "`{keyword}` stands in transaction `{}`; an `end` is missing before it",
                    open.transaction.name
                );
                return Err(first.refuse(message));
            }
            _ => {
                let message = format!(
                    "`{keyword}` is not known here; a step is {MODES}, or loop, if, else, piece or end"
                );
                return Err(first.refuse_with(message, IN_TXN));
            }
        }
        end_of_line(rest, &format!("after `{keyword}`"))
    }

    fn close(&mut self) -> Result<(), ParseError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        if open.transaction.body.is_empty() {
            return Err(open.opened.refuse(format!("transaction `{}` is empty", open.transaction.name)));
        }
        self.transactions.push(open.transaction);
        Ok(())
    }

    fn access(&mut self, mode: Mode, first: &Word, rest: &mut Rest<'_>) -> Result<(), ParseError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        if mode.writes() && open.transaction.readonly {
            let message = format!("transaction `{}` is readonly", open.transaction.name);
            return Err(first.refuse(message));
        }
        let table = rest.need("a table's name")?;
        if OF_ACCESS.contains(&table.text.as_str()) {
            return Err(table.refuse(format!("a table's name is missing before `{}`", table.text)));
        }
        let mut access = Access { line: first.line as u32, ..Access::new(mode, table.name()?) };
        let used = |word: &Word, column: bool| Use {
            word: word.clone(),
            table: access.table.clone(),
            column,
            writes: mode.writes(),
        };
        let mut uses = vec![used(table, false)];
        let mut seen: Vec<&str> = Vec::new();
        while let Some(word) = rest.next() {
            let keyword = word.text.as_str();
            if seen.contains(&keyword) {
                return Err(word.refuse(format!("`{keyword}` is one too many")));
            }
            seen.push(keyword);
            let from = rest.words;
            match keyword {
                "by" => {
                    let word = rest.need("`idx`")?;
                    if word.text != "idx" {
                        return Err(word.refuse_with("`by` is followed by `idx NAME`", ["idx"]));
                    }
                    access.index = Some(rest.need("the index's name")?.name()?);
                }
                "cols" if rest.words.first().is_some_and(|word| word.text == "*") => drop(rest.next()),
                "cols" => {
                    let names = rest.names("a column's name, or `*`", &OF_ACCESS)?;
                    uses.extend(from[..names.len()].iter().map(|word| used(word, true)));
                    access.columns = Columns::Named(names);
                }
                "reads" => {
                    access.reads = rest.names("a column's name", &OF_ACCESS)?;
                    uses.extend(from[..access.reads.len()].iter().map(|word| used(word, true)));
                }
                "causal" => access.causal = true,
                "no_abort" => access.no_abort = true,
                "deferred" if access.mode == Mode::Add => access.deferred = true,
                "deferred" => {
                    let message = format!("only an `add` can be deferred, not `{}`", access.mode.word());
                    return Err(word.refuse(message));
                }
                "piece" => {
                    let number = rest.need("a number")?;
                    access.piece = Some(number.number()?);
                    let known = open.numbers.contains(&number.number()?);
                    if let Some(block) = open.blocks.iter().find(|block| !block.is_branch()) {
                        let message =
                            format!("`{}` of line {} is a piece already", block.word(), block.opened.line);
                        return Err(word.refuse(message));
                    }
                    if known && open.last != access.piece {
                        let message =
                            format!("piece {} was left before; its accesses stand together", number.text);
                        return Err(word.refuse(message));
                    }
                }
                _ => {
                    let message = format!("`{keyword}` is not known here; {}", after_table());
                    return Err(word.refuse_with(message, OF_ACCESS));
                }
            }
        }
        open.last = access.piece;
        open.numbers.extend(access.piece);
        steps(open).push(Step::Access(access));
        self.uses.extend(uses);
        Ok(())
    }

    /// Looks up what was used, and hands the workload over.
    fn finish(self, last: usize) -> Result<Workload, ParseError> {
        if let Some(open) = &self.open {
            let (word, what) = match open.blocks.last() {
                Some(block) => (&block.opened, format!("`{}`", block.word())),
                None => (&open.opened, format!("transaction `{}`", open.transaction.name)),
            };
            return Err(word.refuse(format!("{what} has no `end`")));
        }
        let Some(name) = self.name else {
            let message = "a text begins with `workload NAME`, and this one is empty".into();
            return Err(ParseError { line: last, column: 1, message, suggestion: None });
        };
        for one in &self.uses {
            match self.places.get(&one.table) {
                Some(&place) => one.check(&self.tables[place])?,
                None => {
                    let meant = self.tables.iter().find(|table| slip(&one.table, &table.name));
                    if let Some(meant) = meant.filter(|_| !one.column) {
                        let message = format!("no table `{}` is declared", one.table);
                        return Err(one.word.refuse_with(message, [meant.name.as_str()]));
                    }
                }
            }
        }
        Ok(Workload { name, tables: self.tables, transactions: self.transactions })
    }
}

fn after_table() -> String {
    "after the table come by idx NAME, cols, reads, causal, no_abort, deferred or piece NUMBER".into()
}

impl Use {
    fn check(&self, table: &Table) -> Result<(), ParseError> {
        if !self.column && self.writes && table.kind == TableKind::Static {
            let message = format!("table `{}` is declared static, so nobody may write it", table.name);
            return Err(self.word.refuse(message));
        }
        if self.column && !table.has(&self.word.text) {
            let message = format!("table `{}` has no column `{}`", table.name, self.word.text);
            let known = table.columns.iter().chain(&table.key).map(String::as_str);
            return Err(self.word.refuse_with(message, known));
        }
        Ok(())
    }
}

impl Block {
    fn is_branch(&self) -> bool {
        matches!(self.kind, BlockKind::Then | BlockKind::Else(_))
    }

    fn word(&self) -> &'static str {
        match self.kind {
            BlockKind::Loop => "loop",
            BlockKind::Piece => "piece",
            BlockKind::Then | BlockKind::Else(_) => "if",
        }
    }
}

/// Where the next step belongs.
fn steps(open: &mut Open) -> &mut Vec<Step> {
    match open.blocks.last_mut() {
        Some(block) => &mut block.steps,
        None => &mut open.transaction.body,
    }
}

fn close(block: Block) -> Result<Step, ParseError> {
    let word = block.word();
    let then_is_empty = match &block.kind {
        BlockKind::Else(then) => then.is_empty(),
        _ => true,
    };
    if block.steps.is_empty() && then_is_empty {
        return Err(block.opened.refuse(format!("this `{word}` is empty")));
    }
    Ok(match block.kind {
        BlockKind::Loop => Step::Loop(block.steps),
        BlockKind::Piece => Step::Piece(block.steps),
        BlockKind::Then => Step::If { then: block.steps, otherwise: Vec::new() },
        BlockKind::Else(then) => Step::If { then, otherwise: block.steps },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_tell_line_column_and_the_word_that_was_meant() {
        let district = "table district key d_id cols d_tax d_ytd";
        let cases = [
            ("", "1:1: a text begins with `workload NAME`, and this one is empty"),
            (
                "worklod w",
                "1:1: a text begins with `workload NAME`, not with `worklod`; did you mean `workload`?",
            ),
            ("workload", "1:9: the workload's name is missing after `workload`"),
            ("workload w\nworkload v", "2:1: a text has one workload only"),
            ("workload w x", "1:12: `x` is too much after the workload's name"),
            (
                "workload w\ntabel t",
                "2:1: `tabel` is not known here; a line begins with table or txn; did you mean `table`?",
            ),
            ("workload w\ntable", "2:6: a table's name is missing after `table`"),
            ("workload w\ntable static", "2:7: a table's name is missing before `static`"),
            ("workload w\ntable t static appendonly", "2:16: `appendonly` is one too many"),
            ("workload w\ntable a b cols x", "2:11: `cols` goes with one table, and here are 2"),
            (
                "workload w\ntable t cols a group g b",
                "2:24: group `g` may have columns that `key` or `cols` names before it",
            ),
            ("workload w\ntable a\ntable a", "3:7: table `a` is declared twice"),
            ("workload w\nread t", "2:1: `read` stands in no transaction; `txn NAME` opens one"),
            ("workload w\ntxn t\nend", "2:1: transaction `t` is empty"),
            ("workload w\ntxn t\nread a", "2:1: transaction `t` has no `end`"),
            ("workload w\ntxn t\n  loop\n read a\nend", "2:1: transaction `t` has no `end`"),
            ("workload w\ntxn t\n  loop\n read a", "3:3: `loop` has no `end`"),
            ("workload w\ntxn t\nloop\nend\nend", "3:1: this `loop` is empty"),
            ("workload w\ntxn t\nread a\nelse\nend", "4:1: `else` belongs to no `if`"),
            (
                "workload w\ntxn t\nread a\ntxn u",
                "4:1: `txn` stands in transaction `t`; an `end` is missing before it",
            ),
            (
                "workload w\ntxn t\n  raed a\nend",
                "3:3: `raed` is not known here; a step is read, update, add, insert, delete or scan, or loop, if, else, piece or end; did you mean `read`?",
            ),
            (
                "workload w\ntxn t wieght 3",
                "2:7: `wieght` is not known here; a transaction has weight or readonly; did you mean `weight`?",
            ),
            ("workload w\ntxn t weight x", "2:14: `x` is no number from 0 to 4294967295"),
            ("workload w\ntxn t readonly\ninsert a\nend", "3:1: transaction `t` is readonly"),
            (
                "workload w\ntxn t\nread a col b\nend",
                "3:8: `col` is not known here; after the table come by idx NAME, cols, reads, causal, no_abort, deferred or piece NUMBER; did you mean `cols`?",
            ),
            ("workload w\ntxn t\nread a cols\nend", "3:12: a column's name, or `*` is missing after `cols`"),
            ("workload w\ntxn t\nread a by index b\nend", "3:11: `by` is followed by `idx NAME`"),
            (
                "workload w\ntxn t\nread a, b\nend",
                "3:6: `a,` is no name: letters, digits and `_ - . :` are allowed",
            ),
            (
                "workload w\ntxn t\nread a piece 1\nread b\nread c piece 1\nend",
                "5:8: piece 1 was left before; its accesses stand together",
            ),
            ("workload w\ntxn t\nloop\nread c piece 1\nend\nend", "4:8: `loop` of line 3 is a piece already"),
            (
                "workload w\ntable s static\ntxn t\ninsert s\nend",
                "4:8: table `s` is declared static, so nobody may write it",
            ),
            (
                "workload w\nTABLE\ttt COLS a\ntxn t\n\tread  tt  cols aa\nend",
                "4:17: table `tt` has no column `aa`; did you mean `a`?",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
        }
        for (access, expected) in [
            ("read distrct", "4:6: no table `distrct` is declared; did you mean `district`?"),
            (
                "read district cols d_tex",
                "4:20: table `district` has no column `d_tex`; did you mean `d_tax`?",
            ),
            ("update district reads d_name", "4:23: table `district` has no column `d_name`"),
        ] {
            let text = format!("workload w\n{district}\ntxn t\n{access}\nend");
            assert_eq!(parse(&text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn blocks_may_be_deep_but_not_endless() {
        let nested = |depth: usize| {
            format!("workload w\ntxn t\n{}read a\n{}end", "loop\n".repeat(depth), "end\n".repeat(depth))
        };
        assert!(parse(&nested(DEPTH)).is_ok());
        assert!(parse(&nested(DEPTH + 1)).unwrap_err().message.contains("deeper than 64"));
    }

    #[test]
    fn case_comments_and_tables_declared_later_do_not_matter() {
        let one = parse("workload W # a comment\nTXN t\nRead A Cols X\nend\ntable a cols x").unwrap();
        let two = parse("\u{feff}workload w\n\ntable a cols x\ntxn t\nread a cols x\nend").unwrap();
        assert_eq!(one.tables, two.tables);
        assert_eq!((one.name, one.transactions[0].accesses().len()), (two.name, 1));
    }
}
