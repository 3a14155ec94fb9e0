"""What programs written with the official Python client do, against the cluster of a kubeconfig.

Usage: client.py KUBECONFIG. Ends with an AssertionError or an ApiException where the server is not as it should be.
"""

import sys
import threading

import kubernetes
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "from-python"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }},
        }],
    },
}


def refused(code, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except ApiException as error:
        assert error.status == code, (error.status, error.body)
        return error
    raise AssertionError(f"{call.__name__} was not refused")


def create_and_read(core):
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one", labels={"app": "a"}), data={"x": "1"})
    made = core.create_namespaced_config_map(NAMESPACE, body)
    assert made.metadata.uid and made.data == {"x": "1"}
    assert core.read_namespaced_config_map("one", NAMESPACE).metadata.uid == made.metadata.uid
    error = refused(409, core.create_namespaced_config_map, NAMESPACE, body)
    assert "AlreadyExists" in error.body
    refused(404, core.read_namespaced_config_map, "none", NAMESPACE)


def list_in_pages(core):
    for number in range(7):
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"page-{number}", labels={"page": "yes"}))
        core.create_namespaced_config_map(NAMESPACE, body)
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, limit=3, label_selector="page=yes", _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"page-{number}" for number in range(7)], names
    found = core.list_config_map_for_all_namespaces(field_selector="metadata.name=page-3")
    assert [item.metadata.namespace for item in found.items] == [NAMESPACE]


def patch_in_all_ways(core, apps):
    patch = core.patch_namespaced_config_map
    assert patch("one", NAMESPACE, {"data": {"y": "2"}}).data == {"x": "1", "y": "2"}
    operations = [{"op": "replace", "path": "/data/x", "value": "3"}, {"op": "remove", "path": "/data/y"}]
    assert patch("one", NAMESPACE, operations).data == {"x": "3"}
    merged = patch("one", NAMESPACE, {"data": {"x": None, "z": "4"}}, _content_type="application/merge-patch+json")
    assert merged.data == {"z": "4"}, merged.data
    refused(422, patch, "one", NAMESPACE, [{"op": "test", "path": "/data/z", "value": "5"}])
    labels = {"app": "web"}
    container = client.V1Container(name="web", image="one", env=[client.V1EnvVar(name="A", value="1")])
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container]))
    spec = client.V1DeploymentSpec(
        replicas=1, selector=client.V1LabelSelector(match_labels=labels), template=template)
    apps.create_namespaced_deployment(
        NAMESPACE, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec))
    containers = [{"name": "web", "image": "two"}, {"name": "side", "image": "car"}]
    changed = apps.patch_namespaced_deployment(
        "web", NAMESPACE, {"spec": {"template": {"spec": {"containers": containers}}}})
    found = {one.name: (one.image, len(one.env or [])) for one in changed.spec.template.spec.containers}
    assert found == {"web": ("two", 1), "side": ("car", 0)}, found
    scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 3}})
    assert scale.spec.replicas == 3


def apply_as_two_managers(core):
    def apply(manager, data, **options):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data}
        return core.patch_namespaced_config_map(
            "applied", NAMESPACE, body, field_manager=manager, _content_type="application/apply-patch+yaml", **options)

    apply("first", {"mine": "1", "shared": "1"})
    apply("second", {"yours": "2"})
    error = refused(409, apply, "second", {"yours": "2", "shared": "2"})
    assert "conflict with \"first\"" in error.body or "conflict with \\\"first\\\"" in error.body, error.body
    assert apply("second", {"yours": "2", "shared": "2"}, force=True).data["shared"] == "2"
    assert apply("first", {}).data == {"yours": "2", "shared": "2"}


def replace_with_lock(core):
    stale = core.read_namespaced_config_map("one", NAMESPACE)
    core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"n": "1"}})
    stale.data = {"n": "2"}
    assert "Conflict" in refused(409, core.replace_namespaced_config_map, "one", NAMESPACE, stale).body


def watch_changes(core):
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    seen = []

    def change():
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="seen"), data={"n": "0"})
        core.create_namespaced_config_map(NAMESPACE, body)
        core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"n": "1"}})
        core.delete_namespaced_config_map("seen", NAMESPACE)

    writer = threading.Thread(target=change)
    writer.start()
    watcher = watch.Watch()
    follow = watcher.stream(
        core.list_namespaced_config_map, NAMESPACE, field_selector="metadata.name=seen",
        resource_version=version, timeout_seconds=60)
    for event in follow:
        seen.append((event["type"], event["object"].data["n"]))
        if event["type"] == "DELETED":
            watcher.stop()
    writer.join()
    assert seen == [("ADDED", "0"), ("MODIFIED", "1"), ("DELETED", "1")], seen
    ended = list(watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, timeout_seconds=1))
    assert {event["type"] for event in ended} == {"ADDED"}, "a watch without a version begins with what is there"
    try:
        for _ in watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version="1", timeout_seconds=5):
            raise AssertionError("a watch from long ago shows something")
    except ApiException as error:
        assert error.status == 410, error


def work_with_a_kind_of_ones_own(api, custom):
    utils.create_from_dict(api, DEFINITION)
    place = ("example.com", "v1", NAMESPACE, "gadgets")
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 1}}
    custom.create_namespaced_custom_object(*place, gadget)
    changed = custom.patch_namespaced_custom_object(*place, "g", {"spec": {"size": 2}})
    assert changed["spec"]["size"] == 2
    refused(422, custom.patch_namespaced_custom_object, *place, "g", {"spec": {"size": "large"}})
    assert [item["metadata"]["name"] for item in custom.list_namespaced_custom_object(*place)["items"]] == ["g"]
    gadgets = dynamic.DynamicClient(api).resources.get(api_version="example.com/v1", kind="Gadget")
    assert gadgets.get(name="g", namespace=NAMESPACE).spec.size == 2
    applied = gadgets.server_side_apply(
        body={**gadget, "spec": {"size": 5}}, name="g", namespace=NAMESPACE, field_manager="python", force_conflicts=True)
    assert applied.spec.size == 5
    gadgets.delete(name="g", namespace=NAMESPACE)


def ask_about_rights(api):
    attributes = client.V1ResourceAttributes(verb="delete", resource="pods", namespace=NAMESPACE)
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    answer = client.AuthorizationV1Api(api).create_self_subject_access_review(review)
    assert answer.status.allowed
    assert client.VersionApi(api).get_code().major == "1"


def delete_everything(core):
    gone = core.delete_namespaced_config_map("one", NAMESPACE)
    # Some versions of the client give a Status here, some what it was made from.
    status = gone["status"] if isinstance(gone, dict) else gone.status
    assert status == "Success", gone
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="page=yes")
    left = {item.metadata.name for item in core.list_namespaced_config_map(NAMESPACE).items}
    assert not any(name.startswith("page-") or name == "one" for name in left), left
    core.delete_namespace(NAMESPACE)
    watcher = watch.Watch()
    for event in watcher.stream(core.list_namespace, field_selector=f"metadata.name={NAMESPACE}", timeout_seconds=60):
        if event["type"] == "DELETED":
            return
    raise AssertionError("the namespace is still there")


def main():
    config.load_kube_config(config_file=sys.argv[1])
    api = client.ApiClient()
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    create_and_read(core)
    list_in_pages(core)
    patch_in_all_ways(core, apps)
    apply_as_two_managers(core)
    replace_with_lock(core)
    watch_changes(core)
    work_with_a_kind_of_ones_own(api, client.CustomObjectsApi(api))
    ask_about_rights(api)
    delete_everything(core)
    print("all well with kubernetes", kubernetes.__version__)


main()
