//! What a URL path means.
//!
//! By hand on path segments: custom resources need no registration, and nothing is ever shadowed by a route table.

use percent_encoding::percent_decode_str;

/// The meaning of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Route {
    Health,
    Version,
    /// The list of all paths.
    Root,
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: all other groups.
    Groups,
    Group(String),
    GroupVersion {
        group: String,
        version: String,
    },
    /// The older edition, for clients that know no other.
    OpenApiV2,
    OpenApiIndex,
    /// `/openapi/v3/<path>`, without that prefix.
    OpenApi(String),
    Resource(Target),
    Unknown,
}

/// A resource, or an object, or a part of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    /// Empty for cluster-scoped resources and for lists over all namespaces.
    pub(super) namespace: String,
    pub(super) plural: String,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

impl Route {
    pub(super) fn parse(path: &str) -> Self {
        let segments: Option<Vec<String>> =
            path.split('/').filter(|segment| !segment.is_empty()).map(decode).collect();
        let Some(segments) = segments else { return Self::Unknown };
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            [] => Self::Root,
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            ["version"] => Self::Version,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApiIndex,
            ["openapi", "v3", rest @ ..] => Self::OpenApi(rest.join("/")),
            ["api", version] => Self::GroupVersion { group: String::new(), version: (*version).into() },
            ["api", version, rest @ ..] => resource("", version, rest),
            ["apis", group] => Self::Group((*group).into()),
            ["apis", group, version] => {
                Self::GroupVersion { group: (*group).into(), version: (*version).into() }
            }
            ["apis", group, version, rest @ ..] => resource(group, version, rest),
            _ => Self::Unknown,
        }
    }
}

fn decode(segment: &str) -> Option<String> {
    percent_decode_str(segment).decode_utf8().ok().map(Into::into)
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Route {
    let (namespace, rest) = match rest {
        // These belong to the namespace itself; anything else there is a resource within it.
        ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, within @ ..] if !within.is_empty() => (*namespace, within),
        _ => ("", rest),
    };
    let owned = |text: &str| Some(text.to_owned());
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, None, None),
        [plural, name] => (*plural, owned(name), None),
        [plural, name, subresource] => (*plural, owned(name), owned(subresource)),
        _ => return Route::Unknown,
    };
    Route::Resource(Target {
        group: group.into(),
        version: version.into(),
        namespace: namespace.into(),
        plural: plural.into(),
        name,
        subresource,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(group: &str, namespace: &str, plural: &str, name: &str, subresource: &str) -> Route {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Route::Resource(Target {
            group: group.into(),
            version: "v1".into(),
            namespace: namespace.into(),
            plural: plural.into(),
            name: some(name),
            subresource: some(subresource),
        })
    }

    #[test]
    fn paths_mean_what_the_api_says() {
        let cases = [
            ("/api/v1/pods", target("", "", "pods", "", "")),
            ("/api/v1/namespaces", target("", "", "namespaces", "", "")),
            ("/api/v1/namespaces/a", target("", "", "namespaces", "a", "")),
            ("/api/v1/namespaces/a/finalize", target("", "", "namespaces", "a", "finalize")),
            ("/api/v1/namespaces/a/pods/", target("", "a", "pods", "", "")),
            ("/api/v1/namespaces/a/pods/b/log", target("", "a", "pods", "b", "log")),
            ("/apis/apps/v1/namespaces/a/deployments/b", target("apps", "a", "deployments", "b", "")),
            (
                "/apis/rbac/v1/clusterroles/system%3Anode",
                target("rbac", "", "clusterroles", "system:node", ""),
            ),
            ("/api", Route::CoreVersions),
            ("/apis/", Route::Groups),
            ("/openapi/v3/apis/apps/v1", Route::OpenApi("apis/apps/v1".into())),
            ("/openapi/v2", Route::OpenApiV2),
            ("/api/v1/pods/a/b/c", Route::Unknown),
            ("/%ff", Route::Unknown),
        ];
        for (path, route) in cases {
            assert_eq!(Route::parse(path), route, "{path}");
        }
    }
}
