"""The component free-nodes: what the coordinator may do, and that it is told to."""

from support.manifests import of_kind, one, pods_of, render, render_overlay

NAME = "own free"


def test_the_coordinator_may_patch_the_scale_of_its_two_sets_and_nothing_else() -> None:
    objects = render(NAME)
    [role] = of_kind(objects, "Role")
    sets = {each["metadata"]["name"] for each in of_kind(objects, "StatefulSet")}
    [rule] = role["rules"]
    assert set(rule.pop("resourceNames")) == sets == {"mine-worker", "mine-parameter-server"}
    assert rule == {"apiGroups": ["apps"], "resources": ["statefulsets/scale"], "verbs": ["patch"]}
    assert not of_kind(objects, "ClusterRole", "ClusterRoleBinding")


def test_only_its_own_account_may() -> None:
    objects = render(NAME)
    [account] = of_kind(objects, "ServiceAccount")
    [binding] = of_kind(objects, "RoleBinding")
    [role] = of_kind(objects, "Role")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": "ours"}
    ]
    job = one(objects, "Job", "coordinator")
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == account["metadata"]["name"]


def test_the_coordinator_is_told_the_names_of_the_sets() -> None:
    flag = pods_of(render(NAME), "coordinator").flags["free_stateful_sets"]
    assert flag == "$(WORKER),$(PARAMETER_SERVER)"
    # Nothing of it where an overlay does not ask for it.
    assert "free_stateful_sets" not in pods_of(render("own base"), "coordinator").flags
    assert not of_kind(render("own base"), "Role", "ServiceAccount")


def test_it_goes_together_with_tls() -> None:
    objects = render_overlay(
        "namespace: ours\nresources: [{k8s}/base]\ntransformers: [{k8s}/counts]\n"
        "components: [{k8s}/components/tls, {k8s}/components/free-nodes]\n"
    )
    coordinator = pods_of(objects, "coordinator")
    assert coordinator.flags["ps_hosts"] == "127.0.2.{}:2223"
    assert coordinator.flags["free_stateful_sets"]
