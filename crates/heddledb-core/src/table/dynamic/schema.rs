//! From a schema text back to a definition: what a directory says of its tables is enough to read their rows.

use super::column_type::ColumnType;
use super::definition::TableDefinition;
use crate::error::{Misuse, Result};

impl TableDefinition {
    /// The table that has this schema text, with indexes of these names and schema texts.
    ///
    /// A text tells the types of columns by their names only. So a table with column types of a program's own, or with
    /// type aliases, has none; whoever compares the layout with the stored one is safe from a type that has the name of
    /// another.
    ///
    /// # Errors
    /// [`Misuse::Definition`] where the text is of no table that can be defined at run time.
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
        let key: Vec<&str> = key.strip_prefix("key ").ok_or_else(unknown)?.split(", ").collect();
        let mut builder = Self::builder(name);
        for column in columns.split(", ") {
            let (place, ty) = column.split_once(": ").ok_or_else(unknown)?;
            let ty = parse(ty).ok_or_else(unknown)?;
            builder = match place.split_once('.') {
                Some((group, column)) => builder.column(column, ty).group(group),
                None if key.contains(&place) => builder.key(place, ty),
                None => builder.column(place, ty),
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
            let columns = columns.split(", ");
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

/// The type that is called so in a schema.
fn parse(text: &str) -> Option<ColumnType> {
    let within = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
    let number = |text: &str| text.parse::<usize>().ok();
    let simple = [
        ColumnType::U8,
        ColumnType::U16,
        ColumnType::U32,
        ColumnType::U64,
        ColumnType::I8,
        ColumnType::I16,
        ColumnType::I32,
        ColumnType::I64,
        ColumnType::U128,
        ColumnType::Bool,
        ColumnType::F32,
        ColumnType::F64,
    ];
    if let Some(ty) = simple.into_iter().find(|ty| ty.to_string() == text) {
        return Some(ty);
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
