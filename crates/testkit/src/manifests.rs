//! What people apply, for tests that apply it.

/// The first edition of the API, and today's.
pub const EDITIONS: [&str; 2] = ["multicluster.k8s.io/v1alpha1", "multicluster.x-k8s.io/v1beta1"];

const ECHO: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: demo}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: echo-1, namespace: demo, labels: {kubernetes.io/service-name: echo}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.7], conditions: {ready: true}}]
ports: [{name: http, port: 8080, protocol: TCP}]
"#;

/// A Service `demo/echo` with the endpoint 10.1.0.7, exported in these editions.
pub fn exported_echo(editions: &[&str]) -> String {
    let export = |edition: &&str| {
        format!(
            "---\napiVersion: {edition}\nkind: ServiceExport\nmetadata: {{name: echo, namespace: demo}}\n"
        )
    };
    editions.iter().map(export).fold(ECHO.to_owned(), |all, one| all + &one)
}
