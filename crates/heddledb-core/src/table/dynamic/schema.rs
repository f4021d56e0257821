//! From a schema text back to a definition: what a directory says of its tables is enough to read their rows.

use super::builder::IndexColumn;
use super::definition::TableDefinition;
use crate::error::{Misuse, Result};
use crate::table::{
    ColumnType, Definition, Group, Index, IndexSet, IndexVisitor, Layout, RANK, Role, Span, Structure, Table,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

impl TableDefinition {
    /// The table of a Rust type, as data: its rows can be read and written by values as well.
    ///
    /// # Errors
    /// [`Misuse::Definition`] for a table with a column that values cannot tell, as an option of an option.
    ///
    /// ```
    /// use heddledb::table::ColumnValue;
    /// use heddledb::table::dynamic::TableDefinition;
    /// use heddledb::{Database, Table, Transaction};
    ///
    /// #[derive(Clone, Copy, ColumnValue)]
    /// enum Status { Open, Sold }
    ///
    /// #[derive(Table, Clone, Copy)]
    /// struct Seat {
    ///     #[key]
    ///     id: u32,
    ///     status: Status,
    /// }
    ///
    /// let db = Database::builder().table::<Seat>(0).open()?;
    /// let seats = db.define(TableDefinition::of::<Seat>()?, 0)?;
    /// let mut session = db.session()?;
    /// session.run(|tx| tx.insert(Seat { id: 7, status: Status::Sold }))?;
    /// let row = session.run(|tx| tx.rows(&seats)?.get(&[7u32.into()]))?.unwrap();
    /// assert_eq!(row["status"], "Sold".into());
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn of<T: Table>() -> Result<&'static Self> {
        struct Indexes(Vec<(&'static str, &'static str)>);
        impl<T: Table> IndexVisitor<T> for Indexes {
            fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
                // An index's relation is called `table.Index`.
                self.0.push((&I::LAYOUT.name[T::LAYOUT.name.len() + 1..], I::SCHEMA));
                Ok(())
            }
        }
        let mut indexes = Indexes(Vec::new());
        <T::Indexes as IndexSet<T>>::each(&mut indexes)?;
        Self::of_schema(T::LAYOUT.name, T::SCHEMA, &indexes.0)
    }

    /// The table that has this schema text, with indexes of these names and schema texts.
    ///
    /// # Errors
    /// [`Misuse::Definition`] where the text is of no table that can be defined at run time, or has types of other crates
    /// without the features of their names.
    ///
    /// ```
    /// use heddledb::table::dynamic::TableDefinition;
    ///
    /// let schema = "id: u64, owner: Text<24>, money.balance: i64; key id; ordered";
    /// let by_owner = format!("index over owner; {schema}");
    /// let account = TableDefinition::of_schema("account", schema, &[("ByOwner", &by_owner)])?;
    /// assert_eq!(account.relation().schema(), schema);
    /// assert_eq!(account.index("ByOwner").unwrap().columns()[0].name(), "owner");
    /// assert!(TableDefinition::of_schema("account", "id: Identity; key id; ordered", &[]).is_err());
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn of_schema(name: &str, schema: &str, indexes: &[(&str, &str)]) -> Result<&'static Self> {
        let refused = |why: String| Misuse::Definition { table: name.to_owned(), why };
        let unknown =
            || refused(format!("`{schema}` is not the schema of a table that can be defined at run time"));
        let parts: Vec<&str> = schema.split("; ").collect();
        let [columns, key, structure] = parts[..] else { return Err(unknown().into()) };
        let key = key.strip_prefix("key ").ok_or_else(unknown)?.split(", ").map(key_part);
        let key: Vec<(&str, Option<usize>)> = key.collect::<Option<_>>().ok_or_else(unknown)?;
        let mut builder = Self::builder(name);
        for column in columns.split(", ") {
            let (place, ty) = column.split_once(": ").ok_or_else(unknown)?;
            let ty = parse(ty).ok_or_else(unknown)?;
            builder = match place.split_once('.') {
                Some((group, column)) => builder.column(column, ty).group(group),
                None => match key.iter().find(|(name, _)| *name == place) {
                    Some((_, None)) => builder.key(place, ty),
                    Some((_, Some(max))) => builder.key(place, ty).max(*max),
                    None => builder.column(place, ty),
                },
            };
        }
        if structure == "hash" {
            builder = builder.hash();
        }
        for (index, text) in indexes {
            let (words, of) = text.split_once("; ").ok_or_else(unknown)?;
            let (unique, columns) =
                match (words.strip_prefix("unique index over "), words.strip_prefix("index over ")) {
                    (Some(columns), _) => (true, columns),
                    (None, Some(columns)) => (false, columns),
                    (None, None) => {
                        return Err(refused(format!("`{text}` is not the schema of an index")).into());
                    }
                };
            if of != schema {
                return Err(refused(format!("index {index} is of another table: `{of}`")).into());
            }
            let columns =
                columns.split(", ").map(key_part).collect::<Option<Vec<_>>>().ok_or_else(unknown)?;
            let columns = columns.into_iter().map(|(name, max)| match max {
                Some(max) => IndexColumn::from((name, max)),
                None => IndexColumn::from(name),
            });
            builder = if unique { builder.unique(*index, columns) } else { builder.index(*index, columns) };
        }
        let table = builder.build()?;
        // Whatever was read in another way than it was meant gives another text.
        if table.relation().schema() != schema {
            return Err(unknown().into());
        }
        Ok(table)
    }
}

/// A relation of which only the shape is known, as a manifest tells it: words of its keys, and of each of its column groups.
/// Rows can be loaded and stored by it, and nothing more. The same reference for the same shape.
pub fn of_shape(name: &str, schema: &str, key_words: usize, groups: &[u32]) -> &'static Definition {
    type Shape = (String, String, usize, Vec<u32>);
    static KNOWN: Mutex<BTreeMap<Shape, &'static Definition>> = Mutex::new(BTreeMap::new());
    let shape = (name.to_owned(), schema.to_owned(), key_words, groups.to_vec());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(&shape) {
        return known;
    }
    let (mut list, mut start) = (Vec::new(), 0);
    for words in groups {
        let end = start + *words as usize;
        list.push(Group { name: "of a shape", span: Span { start, end }, rank: RANK, held: false });
        start = end;
    }
    let (name, schema): (&'static str, &'static str) = (name.to_owned().leak(), schema.to_owned().leak());
    // Entries of indexes have no slots. A schema with a type that this program does not know has none as far as it knows;
    // its long values, if there are any, are then told to be of another shape.
    let slots = TableDefinition::of_schema(name, schema, &[])
        .map_or(&[][..], |table| table.relation().layout().slots);
    let layout = Box::leak(Box::new(Layout { name, groups: list.leak(), words: start, slots }));
    let definition = Definition::new(layout, Structure::Ordered, schema, key_words, Role::Unknown);
    let definition = Box::leak(Box::new(definition));
    known.insert(shape, definition);
    definition
}

/// Whether rows of one schema are rows of another: the texts are the same, apart from values that enums were given since.
/// Their numbers are what they were, so nothing that is stored means anything else.
///
/// ```
/// use heddledb::table::dynamic::is_same_or_widened;
///
/// let old = "id: u64, status: u8{Open=0,Sold=1}; key id; ordered";
/// assert!(is_same_or_widened(old, "id: u64, status: u8{Open=0,Held=2,Sold=1}; key id; ordered"));
/// assert!(!is_same_or_widened(old, "id: u64, status: u8{Open=0,Held=1,Sold=2}; key id; ordered"));
/// ```
pub fn is_same_or_widened(old: &str, new: &str) -> bool {
    // What is between braces are the values of an enum; nothing else in a schema has braces.
    let (mut old, mut new) = (old.split(['{', '}']), new.split(['{', '}']));
    loop {
        match (old.next(), new.next()) {
            (None, None) => return true,
            (Some(old), Some(new)) if old == new => {}
            _ => return false,
        }
        match (old.next(), new.next()) {
            (None, None) => return true,
            (Some(old), Some(new)) if old.split(',').all(|value| new.split(',').any(|new| new == value)) => {}
            _ => return false,
        }
    }
}

/// A part of a key, and the `max` that it states: `name`, `name(max=40)`.
fn key_part(text: &str) -> Option<(&str, Option<usize>)> {
    match text.split_once("(max=") {
        None => Some((text, None)),
        Some((name, max)) => Some((name, Some(max.strip_suffix(')')?.parse().ok()?))),
    }
}

/// The type that is called so in a schema.
fn parse(text: &str) -> Option<ColumnType> {
    let within = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
    let number = |text: &str| text.parse::<usize>().ok();
    if let Some(ty) = ColumnType::SIMPLE.iter().find(|ty| ty.to_string() == text) {
        return Some(*ty);
    }
    if let Some((integer, variants)) = text.strip_suffix('}').and_then(|text| text.split_once('{')) {
        let variant = |text: &str| {
            let (name, number) = text.split_once('=')?;
            Some((name.to_owned(), number.parse().ok()?))
        };
        let variants: Option<Vec<(String, i128)>> = variants.split(',').map(variant).collect();
        return Some(ColumnType::enumeration(parse(integer)?, variants?));
    }
    if let Some(bytes) = within("[u8;", "]") {
        return number(bytes).map(ColumnType::Bytes);
    }
    if let Some(bytes) = within("Text<", ">") {
        return number(bytes).map(ColumnType::Text);
    }
    if let Some(inner) = within("Option<", ">") {
        return parse(inner).map(ColumnType::optional);
    }
    within("Reverse<", ">").and_then(parse).map(ColumnType::reversed)
}
