//! Reading: one object, or a list in pages.

use std::sync::Arc;

use super::Call;
use crate::object;
use crate::selector::{FieldTerm, Selector};
use crate::status::Status;
use crate::store::{Key, Page, Stored, Token};

/// What a list request asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListQuery {
    pub(crate) selector: Selector,
    /// 0 = everything at once.
    pub(crate) limit: usize,
    pub(crate) continue_token: Option<String>,
    pub(crate) revision: Option<u64>,
    pub(crate) revision_match: Option<VersionMatch>,
}

/// How `resourceVersion` of a list is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// A `resourceVersion` of a query: nothing when empty.
pub(crate) fn parse_revision(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let why = if text.bytes().all(|byte| byte.is_ascii_digit()) {
            "value out of range"
        } else {
            "invalid syntax"
        };
        Status::bad_request(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}"
        ))
    })
}

pub(crate) fn get(call: &Call<'_>, name: &str) -> Result<Arc<Stored>, Status> {
    call.core.store.get(&call.resource.collection, &call.key(name)).ok_or_else(|| call.not_found(name))
}

pub(crate) fn list(call: &Call<'_>, query: &ListQuery) -> Result<Page, Status> {
    if let Some(token) = &query.continue_token {
        return next_page(call, query, token);
    }
    let (current, items) = newest(call);
    match query.revision {
        Some(asked) if asked > current => Err(Status::from_the_future(asked, current)),
        Some(asked) if asked < current && query.is_exact() => {
            let items = past(call, asked)
                .ok_or_else(|| Status::expired("The resourceVersion for the provided list is too old."))?;
            Ok(page(call, query, asked, items, None))
        }
        _ => Ok(page(call, query, current, items, None)),
    }
}

impl ListQuery {
    /// Whether the revision is meant exactly. A page of a revision was asked for like that before there was a word for it.
    fn is_exact(&self) -> bool {
        let unsaid = self.limit > 0 && self.revision.is_some_and(|asked| asked > 0);
        self.revision_match == Some(VersionMatch::Exact) || (self.revision_match.is_none() && unsaid)
    }
}

fn namespace<'a>(call: &Call<'a>) -> Option<&'a str> {
    (!call.namespace.is_empty()).then_some(call.namespace)
}

fn newest(call: &Call<'_>) -> (u64, Vec<Arc<Stored>>) {
    call.core.store.list(&call.resource.collection, namespace(call))
}

/// What there was at a past revision, as far as it is still known.
fn past(call: &Call<'_>, revision: u64) -> Option<Vec<Arc<Stored>>> {
    let remembered = call.core.pages.recall(call.core.now(), revision, &identity(call));
    let undone = || call.core.store.list_at(&call.resource.collection, namespace(call), revision);
    remembered.map(|all| all.to_vec()).or_else(undone)
}

/// The page of `items` that begins after a key; they are remembered where another page follows.
fn page(
    call: &Call<'_>,
    query: &ListQuery,
    revision: u64,
    mut items: Vec<Arc<Stored>>,
    after: Option<&Key>,
) -> Page {
    if let Some(name) = single(call, query) {
        items.retain(|stored| object::name(&stored.value) == name);
    }
    let page = cut(query, revision, &items, after);
    if page.next.is_some() {
        call.core.pages.remember(call.core.now(), revision, &identity(call), Arc::new(items));
    }
    page
}

fn cut(query: &ListQuery, revision: u64, items: &[Arc<Stored>], after: Option<&Key>) -> Page {
    let start = after.map_or(0, |key| items.partition_point(|stored| Key::of(&stored.value) <= *key));
    Page::cut(revision, &items[start..], query.limit, |stored| query.selector.matches(&stored.value))
}

/// The only object that can be in the list, where its selector names it: nothing else is looked at then.
fn single<'a>(call: &Call<'_>, query: &'a ListQuery) -> Option<&'a str> {
    if call.resource.namespaced && call.namespace.is_empty() {
        return None;
    }
    let named = |term: &&FieldTerm| term.path == "metadata.name" && !term.negated;
    query.selector.fields.iter().find(named).map(|term| term.value.as_str())
}

/// What decides which objects a list looks at, in one string.
fn identity(call: &Call<'_>) -> String {
    format!("{}|{}", call.resource.collection, call.namespace)
}

fn next_page(call: &Call<'_>, query: &ListQuery, token: &str) -> Result<Page, Status> {
    let token =
        Token::decode(token).map_err(|why| Status::bad_request(format!("invalid continue token: {why}")))?;
    let Some(revision) = token.revision else {
        let (revision, items) = newest(call);
        return Ok(page(call, query, revision, items, Some(&token.after)));
    };
    // A cluster that went back to an earlier state has not reached some revisions again.
    let known = revision <= call.core.store.revision();
    let items = if known { past(call, revision) } else { None };
    Ok(page(call, query, revision, items.ok_or_else(|| forgotten(&token))?, Some(&token.after)))
}

fn forgotten(token: &Token) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of \
         the results. Continuing with the provided token results in an inconsistent list - objects that were \
         created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.continue_token = Some(Token { revision: None, after: token.after.clone() }.encode());
    status
}
