//! What the fuzz targets call.
