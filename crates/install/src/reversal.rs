//! The chart's own look at the cluster before it changes anything: it does not take the place of a later version.
//!
//! `tombolo install` refuses to go back, and so does this, with the functions that Helm has. Where Helm asks no cluster (`helm
//! template`) nothing is found and nothing refused. `helm rollback` asks for exactly that, applies what it remembers, and comes
//! not by here.
//!
//! Roles of members outlive the release that brought them, and `tombolo join` makes them, too. Helm refuses to bring what is
//! there and not its own, so such a role is left out, as is a later one of its own: they stay as they are.

use crate::part::{Part, VERSION_LABEL};

/// Templates that give no object; and a look at the parts that are there, which fails where one is of a later version.
pub(crate) fn template() -> String {
    let mut text = "\
{{- /* The version of what was found, if it is later than the chart's. One that cannot be read is no later than any. */}}
{{- define \"tombolo.laterVersion\" }}
{{- $there := dig \"metadata\" \"labels\" \"VERSION\" \"\" .found }}
{{- if regexMatch \"^v?[0-9]+[.][0-9]+[.][0-9]+(-[0-9A-Za-z.-]+)?$\" $there }}
{{- if gt ((semver $there).Compare (semver .chart)) 0 }}
{{- $there }}
{{- end }}
{{- end }}
{{- end }}
{{- define \"tombolo.expectNoLater\" }}
{{- with include \"tombolo.laterVersion\" . }}
{{- fail (printf \"nothing was changed: %s is of version %s, and this chart of version %s. Use the later chart; to go back on \
purpose, `helm rollback`, or uninstall the later one first\" $.object . $.chart) }}
{{- end }}
{{- end }}
{{- /* Something, if what was found is nothing, or what Helm takes for this release's own, and no later than the chart. */}}
{{- define \"tombolo.mayBring\" }}
{{- $by := dig \"metadata\" \"labels\" \"app.kubernetes.io/managed-by\" \"\" .found }}
{{- $name := dig \"metadata\" \"annotations\" \"meta.helm.sh/release-name\" \"\" .found }}
{{- $namespace := dig \"metadata\" \"annotations\" \"meta.helm.sh/release-namespace\" \"\" .found }}
{{- $isOwn := and (eq $by \"Helm\") (eq $name .release.Name) (eq $namespace .release.Namespace) }}
{{- if or (not .found) (and $isOwn (not (include \"tombolo.laterVersion\" .))) }}
{{- print \"yes\" }}
{{- end }}
{{- end }}
"
    .replace("VERSION", VERSION_LABEL);
    for part in Part::ALL {
        let (kind, name) = (if part.is_on_nodes() { "DaemonSet" } else { "Deployment" }, part.object_name());
        let object = format!("{}/{name}", kind.to_lowercase());
        let found = format!("(lookup \"apps/v1\" \"{kind}\" .Release.Namespace \"{name}\")");
        text += &format!(
            "{{{{- if .Values.{}.enabled }}}}\n{{{{- include \"tombolo.expectNoLater\" (dict \"chart\" .Chart.AppVersion \
             \"object\" \"{object}\" \"found\" {found}) }}}}\n{{{{- end }}}}\n",
            part.flag()
        );
    }
    text
}

/// A condition: whether the release may bring a role of members.
pub(crate) fn may_bring(role: &str) -> String {
    let found = format!("(lookup \"rbac.authorization.k8s.io/v1\" \"ClusterRole\" \"\" \"{role}\")");
    format!(
        "include \"tombolo.mayBring\" (dict \"chart\" .Chart.AppVersion \"release\" .Release \"found\" {found})"
    )
}
