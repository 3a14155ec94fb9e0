//! The chart's own look at the cluster before it changes anything: it does not take the place of a later version.
//!
//! `tombolo install` refuses to go back, and so does this, with the functions that Helm has. Where Helm asks no cluster (`helm
//! template`) nothing is found and nothing refused. `helm rollback` asks for exactly that, applies what it remembers, and comes
//! not by here.

use crate::part::{Part, VERSION_LABEL};
use crate::place;

/// A template that gives no object, and fails where a part that is there, or a role of members, is of a later version.
pub(crate) fn template() -> String {
    let mut text = "\
{{- /* A version that cannot be read is no later than any. */}}
{{- define \"tombolo.expectNoLater\" }}
{{- $there := dig \"metadata\" \"labels\" \"VERSION\" \"\" .found }}
{{- if regexMatch \"^v?[0-9]+[.][0-9]+[.][0-9]+(-[0-9A-Za-z.-]+)?$\" $there }}
{{- if gt ((semver $there).Compare (semver .chart)) 0 }}
{{- fail (printf \"nothing was changed: %s is of version %s, and this chart of version %s. Use the later chart; to go back on \
purpose, `helm rollback`, or uninstall the later one first\" .object $there .chart) }}
{{- end }}
{{- end }}
{{- end }}
"
    .replace("VERSION", VERSION_LABEL);
    for part in Part::ALL {
        let (kind, name) = (if part.is_on_nodes() { "DaemonSet" } else { "Deployment" }, part.object_name());
        let found = lookup("apps/v1", kind, ".Release.Namespace", &name);
        let roles = place::all_member_roles();
        let roles = roles
            .iter()
            .filter(|_| part == Part::Hub)
            .map(|role| lookup("rbac.authorization.k8s.io/v1", role.kind(), "\"\"", role.name()));
        let looks: String = std::iter::once(found).chain(roles).collect();
        text += &format!("{{{{- if .Values.{}.enabled }}}}\n{looks}{{{{- end }}}}\n", part.flag());
    }
    text
}

fn lookup(version: &str, kind: &str, namespace: &str, name: &str) -> String {
    let object = format!("{}/{name}", kind.to_lowercase());
    format!(
        "{{{{- include \"tombolo.expectNoLater\" (dict \"chart\" .Chart.AppVersion \"object\" \"{object}\" \"found\" \
         (lookup \"{version}\" \"{kind}\" {namespace} \"{name}\")) }}}}\n"
    )
}
