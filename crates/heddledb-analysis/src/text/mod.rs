//! Workloads as text: one file, one workload; lines of words, `#` before a comment, indentation free.
//!
//! ```text
//! workload tpcc-rw
//! table district  key d_w_id d_id  cols d_tax d_ytd d_next_o_id d_name
//! table account   cols owner balance limit  group money balance limit
//! table history   appendonly                   # inserted keys are distinct by construction
//! table item customer_name_idx static          # never written; several names allowed
//!
//! txn new_order weight 45
//!   read   district cols d_tax
//!   update district cols d_next_o_id reads d_next_o_id
//!   loop                                       # everything inside is one piece
//!     read   item
//!     update stock cols s_quantity reads s_quantity
//!   end
//!   if                                         # both sides count
//!     read customer by idx customer_name cols c_balance
//!   else
//!     read customer cols c_balance
//!   end
//!   insert new_order
//!   read   trade cols t_qty causal             # ordered by application logic: no C-edge
//!   add    district cols d_ytd                 # commutative, result not used
//!   add    warehouse cols w_ytd no_abort       # from here on it does not give up
//!   add    counter cols c_sum deferred         # where a runtime defers, it takes effect later
//! end
//! txn order_status readonly                    # runs on a snapshot
//!   scan order
//! end
//! ```
//!
//! ```text
//! file   = "workload" name { table | txn }
//! table  = "table" name+ { "static" | "appendonly" | "key" name+ | "cols" name+ | "group" name name+ }
//! txn    = "txn" name { "weight" number | "readonly" } step+ "end"
//! step   = access | "loop" step+ "end" | "piece" step+ "end" | "if" step* [ "else" step* ] "end"
//! access = mode name { "by" "idx" name | "cols" ( name+ | "*" ) | "reads" name+ | "causal" | "no_abort"
//!                     | "deferred" | "piece" number }
//! mode   = "read" | "update" | "add" | "insert" | "delete" | "scan"
//! ```
//!
//! `key`, `cols` and `group` go with one table name only. Names are folded to lower case; letters, digits
//! and `_ - . :` are allowed. Missing `cols` means all columns. A table that is accessed need not be declared, but a
//! name that differs from a declared one by what looks like a slip is refused.
//! Columns must be declared if their table declares any.

#[cfg(feature = "parser")]
mod nearest;
#[cfg(feature = "parser")]
mod parse;
mod print;
#[cfg(feature = "parser")]
mod words;

#[cfg(feature = "parser")]
pub use nearest::nearest;
#[cfg(feature = "parser")]
pub use parse::parse;
pub use print::print;
#[cfg(feature = "parser")]
pub use words::ParseError;
