//! Reading: one object, or a list in pages.

use std::sync::Arc;

use super::Call;
use crate::selector::Selector;
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
    let (revision, items) = newest(call);
    if let Some(past) = remembered(call, query, revision) {
        return Ok(past);
    }
    check_revision(query, revision)?;
    Ok(first_page(call, query, revision, items))
}

/// A past list that was asked for by its exact revision, while its pages are still known.
fn remembered(call: &Call<'_>, query: &ListQuery, current: u64) -> Option<Page> {
    let exact = query.revision_match == Some(VersionMatch::Exact);
    let asked = query.revision.filter(|asked| exact && *asked < current)?;
    let all = call.core.pages.recall(call.core.now(), asked, &identity(call, query))?;
    Some(Page::cut(asked, all.to_vec(), query.limit))
}

fn newest(call: &Call<'_>) -> (u64, Vec<Arc<Stored>>) {
    let namespace = (!call.namespace.is_empty()).then_some(call.namespace);
    call.core.store.list(&call.resource.collection, namespace)
}

fn check_revision(query: &ListQuery, current: u64) -> Result<(), Status> {
    match query.revision {
        Some(asked) if asked > current => Err(Status::from_the_future(asked, current)),
        Some(asked) if query.revision_match == Some(VersionMatch::Exact) && asked != current => {
            Err(Status::expired("The resourceVersion for the provided list is too old."))
        }
        _ => Ok(()),
    }
}

fn first_page(call: &Call<'_>, query: &ListQuery, revision: u64, mut items: Vec<Arc<Stored>>) -> Page {
    if !query.selector.is_empty() {
        items.retain(|stored| query.selector.matches(&stored.value));
    }
    if query.limit > 0 && items.len() > query.limit {
        let all = Arc::new(items.clone());
        call.core.pages.remember(call.core.now(), revision, &identity(call, query), all);
    }
    Page::cut(revision, items, query.limit)
}

/// What decides which objects a list holds, in one string.
fn identity(call: &Call<'_>, query: &ListQuery) -> String {
    format!("{}|{}|{:?}", call.resource.collection, call.namespace, query.selector)
}

fn next_page(call: &Call<'_>, query: &ListQuery, token: &str) -> Result<Page, Status> {
    let token =
        Token::decode(token).map_err(|why| Status::bad_request(format!("invalid continue token: {why}")))?;
    let Some(revision) = token.revision else {
        let (revision, items) = newest(call);
        return Ok(first_page(call, query, revision, after(items, &token.after)));
    };
    let all = call.core.pages.recall(call.core.now(), revision, &identity(call, query));
    let all = all.ok_or_else(|| forgotten(&token))?;
    let start = all.partition_point(|stored| Key::of(&stored.value) <= token.after);
    Ok(Page::cut(revision, all[start..].to_vec(), query.limit))
}

fn after(items: Vec<Arc<Stored>>, key: &Key) -> Vec<Arc<Stored>> {
    items.into_iter().filter(|stored| Key::of(&stored.value) > *key).collect()
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
