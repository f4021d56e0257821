//! Hash index.
