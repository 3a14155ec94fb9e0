//! What a CustomResourceDefinition says about its objects, and what follows from it.
//!
//! A `Schema` is parsed once from a version's `openAPIV3Schema` and then drops unknown fields, fills in defaults and
//! checks objects; a [`Definition`] is the whole custom resource with its versions, columns and subresources. Everything
//! here is a pure function of JSON values: no store, no clock. Messages are those of a Kubernetes API server.

mod address;
mod defaulting;
mod definition;
mod embedded;
mod expression;
mod format;
mod jsonpath;
mod keywords;
mod lists;
mod moment;
mod names;
mod numbers;
mod path;
mod pattern;
mod pruning;
mod registration;
mod rules;
mod structural;
mod structure;
mod surfaces;
mod validation;
mod verdict;
mod version;

pub(crate) use definition::{Definition, ScalePaths, Version, complete};
pub(crate) use jsonpath::JsonPath;
pub(crate) use structural::Schema;
pub(crate) use version::compare_versions;

#[cfg(test)]
mod tests;
