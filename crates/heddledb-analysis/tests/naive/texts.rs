//! Random workload texts.

/// The columns that the generator uses. All columns are these and one that nobody names.
pub const COLUMNS: [&str; 3] = ["x", "y", "z"];

/// A small generator of numbers (splitmix64), so that a seed gives the same text for ever.
pub struct Random(pub u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % limit
    }

    fn columns(&mut self) -> String {
        let chosen: Vec<&str> = COLUMNS.into_iter().filter(|_| self.below(2) == 0).collect();
        if chosen.is_empty() { COLUMNS[self.below(3) as usize].into() } else { chosen.join(" ") }
    }
}

pub struct Shape {
    pub types: u64,
    pub steps: u64,
    pub tables: u64,
    /// Out of ten: how many types keep to the order of tables.
    pub ordered: u64,
}

pub fn generate(random: &mut Random, shape: &Shape) -> String {
    let mut text = String::from("workload random\ntable fixed static\ntable log appendonly\n");
    for name in 0..1 + random.below(shape.types) {
        let readonly = random.below(12) == 0;
        text += &format!("txn t{name}{}\n", if readonly { " readonly" } else { "" });
        let ordered = random.below(10) < shape.ordered;
        let mut table = 0;
        let mut number = 0;
        for _ in 0..1 + random.below(shape.steps) {
            table = if ordered { table + random.below(2) } else { random.below(shape.tables) };
            let name = format!("tab{table}");
            match random.below(12) {
                0 => block(&mut text, random, "loop", &name, readonly),
                1 => block(&mut text, random, "piece", &name, readonly),
                2 => {
                    text += "if\n";
                    access(&mut text, random, &name, readonly, None);
                    text += "else\n";
                    block(&mut text, random, "loop", &name, readonly);
                    text += "end\n";
                }
                3 => {
                    number += 1;
                    for _ in 0..1 + random.below(2) {
                        access(&mut text, random, &name, readonly, Some(number));
                    }
                }
                _ => access(&mut text, random, &name, readonly, None),
            }
        }
        text += "end\n";
    }
    text
}

fn block(text: &mut String, random: &mut Random, word: &str, table: &str, readonly: bool) {
    *text += &format!("{word}\n");
    for _ in 0..1 + random.below(2) {
        access(text, random, table, readonly, None);
    }
    *text += "end\n";
}

fn access(text: &mut String, random: &mut Random, table: &str, readonly: bool, number: Option<u32>) {
    let (table, modes): (&str, &[&str]) = match random.below(12) {
        0 => ("fixed", &["read", "scan"]),
        1 if readonly => ("log", &["read", "scan"]),
        1 => ("log", &["insert", "insert", "read", "delete"]),
        _ if readonly => (table, &["read", "scan"]),
        _ => (table, &["read", "read", "update", "update", "add", "insert", "delete", "scan"]),
    };
    let mode = modes[random.below(modes.len() as u64) as usize];
    *text += &format!("{mode} {table}");
    let whole = matches!(mode, "insert" | "delete");
    if !whole && random.below(3) > 0 {
        *text += &format!(" cols {}", random.columns());
    }
    if matches!(mode, "update" | "add") && random.below(3) == 0 {
        *text += &format!(" reads {}", random.columns());
    }
    if random.below(15) == 0 {
        *text += " causal";
    }
    if let Some(number) = number {
        *text += &format!(" piece {number}");
    }
    *text += "\n";
}
